//! `POST /v3/users/bulk`: creates or merges many users at once.

use std::mem;

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::Problem;
use domain::body::kind::{As, List};
use domain::body::{Body as _, json, named};
use domain::content::Object;
use domain::fields::check_plain_json;
use domain::profile::{self, Refusal};
use operations::users;
use serde::Serialize;
use serde_json::Value;
use store::directory::user::merge::MergeResult;
use utoipa::ToSchema;
use web::body::Body;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;

use crate::access::caller::AppCaller;
use crate::directory::users::NewUser;
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::Identifier;

const MAX_USERS: usize = 1_000;

domain::schemas! {
    /// Users to create or merge.
    pub(crate) ManyUsers = |schemas| named(schemas, "ManyUsers", |schemas| json!({
        "description": "Users to create or merge: an array, or an object with the array in `users`.",
        "oneOf": [UsersObject::schema(schemas), UsersArray::schema(schemas)],
        "example": {"users": [{"identifier": "ada", "profile": {"name": "Ada"}}, {"identifier": "bob"}]},
    }));
    UsersArray = |schemas| named(schemas, "UsersArray", |schemas| {
        let mut array = List::<NewUser, MAX_USERS>::schema(schemas);
        array["description"] = "At most 1,000 users.".into();
        array
    });
}

domain::body! {
    struct UsersObject {
        worded users: As<UsersArray, List<NewUser>>,
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = ManyUsersMerged, example = json!({"data": [
    {"identifier": "ada", "status": "created", "errors": []},
    {"identifier": null, "status": "error", "errors": [
        {"field": "users[1].identifier", "code": "required", "message": "users[1].identifier is required"}
    ]},
]}))]
struct Answer {
    /// One result for each user of the request, in the same order.
    data: Vec<UserAnswer>,
}

/// Result for a user of the request.
#[derive(Serialize, ToSchema)]
#[schema(as = UserMerged)]
struct UserAnswer {
    /// Null if the request has no valid identifier.
    #[schema(value_type = Option<Identifier>)]
    identifier: Option<String>,
    #[schema(inline)]
    status: UserStatus,
    /// Problems that prevented the service from writing the user.
    #[schema(value_type = Vec<web::described::Problem>)]
    errors: Vec<Problem>,
    /// Malformed addresses that were stored, to which nothing can be sent. With `Prefer: handling=strict`, such a user is not
    /// written, and the problems are in `errors`.
    #[schema(value_type = Vec<web::described::Problem>)]
    warnings: Vec<Problem>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum UserStatus {
    Created,
    Updated,
    Error,
}

/// One user of the request, with the problems found in it.
struct Item {
    path: String,
    identifier: Option<String>,
    pairs: Object,
    problems: Vec<Problem>,
    malformed: Vec<Problem>,
}

/// Creates users, or merges key-value pairs into their profiles.
///
/// The answer has a result for each user. An error in one user does not affect the others. If a user is named twice, both sets
/// of pairs are merged, in order.
#[utoipa::path(
    post,
    path = "/v3/users/bulk",
    operation_id = "putUsers",
    tag = "users",
    security(("app" = [])),
    request_body = described::ManyUsers,
    responses((status = 200, description = "The result for each user.", body = Answer)),
)]
pub(crate) async fn merge(
    caller: AppCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let mut items = read_items(body.json().await?, handling.strict)?;
    let sound = items.iter_mut().filter(|item| item.problems.is_empty());
    let pairs: Vec<_> =
        sound.filter_map(|item| Some((item.identifier.clone()?, mem::take(&mut item.pairs)))).collect();
    let merged = users::merge_many(&gateway.operations, &caller.backend, caller.app, pairs);
    let mut merged = merged.await?.into_iter();
    let answers = items.into_iter().map(|item| {
        let merged = if item.problems.is_empty() { merged.next() } else { None };
        item.answer(merged)
    });
    Ok(HttpResponse::Ok().json(Answer { data: answers.collect() }))
}

fn read_items(body: Value, strict: bool) -> Result<Vec<Item>, Failure> {
    let mut problems = Vec::new();
    let (path, items) = match body {
        Value::Array(items) => ("", Some(items)),
        body => ("users", read_users(body, strict, &mut problems)),
    };
    if items.as_ref().is_some_and(|items| items.len() > MAX_USERS) {
        let message =
            format!("users must hold at most {MAX_USERS} users; send the others in another request");
        problems.push(Problem::new("users", "too_many", message));
    }
    let items = valid_or_problems(items, problems)?.into_iter().enumerate();
    Ok(items.map(|(index, item)| read_item(format!("{path}[{index}]"), item, strict)).collect())
}

fn read_users(body: Value, strict: bool, problems: &mut Vec<Problem>) -> Option<Vec<Value>> {
    let mut body = UsersObject::open("", body, problems)?;
    if !body.fields.has("users") {
        problems.push(Problem::new("users", "required", "users is required, an array of users"));
    }
    let items = body.users(problems);
    body.fields.finish(strict, problems);
    items
}

fn read_item(path: String, item: Value, strict: bool) -> Item {
    let mut problems = Vec::new();
    check_plain_json(&path, &item, &mut problems);
    let mut identifier = None;
    let mut pairs = Object::new();
    if let Some(new) = NewUser::open(&path, item, &mut problems) {
        (identifier, pairs) = new.read(strict, &mut problems);
    }
    // Check the pairs before anything is written: pairs that no profile can contain must not create a user.
    if let Err(refusal) = profile::merged(&Object::new(), &pairs) {
        problems.push(problem(&path, &refusal));
    }
    let mut malformed = profile::malformed(&format!("{path}.profile"), &pairs);
    if strict {
        problems.append(&mut malformed);
    }
    Item { path, identifier, pairs, problems, malformed }
}

fn problem(path: &str, refusal: &Refusal) -> Problem {
    let (field, code) = match refusal {
        Refusal::ReservedKey => (format!("{path}.profile.identifier"), "reserved_key"),
        _ => (format!("{path}.profile"), "too_long"),
    };
    let message = format!("{field}: {refusal}");
    Problem::new(field, code, message)
}

impl Item {
    /// Builds the answer for this user. `merged` is None if the user has problems, because such a user is not merged.
    fn answer(self, merged: Option<MergeResult>) -> UserAnswer {
        let (status, errors) = match merged {
            Some(MergeResult::Created) => (UserStatus::Created, Vec::new()),
            Some(MergeResult::Updated) => (UserStatus::Updated, Vec::new()),
            Some(MergeResult::Refused(refusal)) => (UserStatus::Error, vec![problem(&self.path, &refusal)]),
            None => (UserStatus::Error, self.problems),
        };
        let warnings = if errors.is_empty() { self.malformed } else { Vec::new() };
        UserAnswer { identifier: self.identifier, status, errors, warnings }
    }
}
