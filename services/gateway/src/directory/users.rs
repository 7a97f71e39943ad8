//! `/v3/users`: the users of an app.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use domain::content::Object;
use domain::fields::{Fields, check_plain_json};
use domain::profile::{self, MAX_PROFILE};
use domain::{Problem, profile::names_identifier};
use serde::Serialize;
use serde_json::Value;
use store::user::User;
use utoipa::ToSchema;

use crate::access::caller::AppCaller;
use crate::gateway::{Gateway, database};
use crate::http::body::Body;
use crate::http::failure::{Failure, sound};
use crate::http::handling::Handling;
use crate::http::path_id::PathId;
use crate::openapi::user::{NewUser, Profile};
use crate::openapi::vocabulary::{FreeObject, Identifier};

/// A user of an app.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({"identifier": "ada", "profile": {"email": "ada@example.com", "name": "Ada"}}))]
struct UserBody<'a> {
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    #[schema(value_type = FreeObject)]
    profile: &'a Object,
}

/// Creates a user.
#[utoipa::path(
    post,
    path = "/v3/users",
    operation_id = "createUser",
    tag = "users",
    security(("app" = [])),
    request_body = NewUser,
    responses(
        (status = 200, description = "The new user.", body = UserBody),
        (status = 409, description = "There is a user with this identifier."),
        (status = 422, description = "The profile has the reserved key `identifier`."),
    ),
)]
pub(crate) async fn create(
    caller: AppCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.json().await?;
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let new = Fields::open("", body, &mut problems).and_then(|mut fields| {
        let identifier = fields.required_identifier("identifier", &mut problems);
        let pairs = fields.free_object("profile", &mut problems).unwrap_or_default();
        check_pairs("profile", &pairs, &mut problems);
        fields.finish(handling.strict, &mut problems);
        Some((identifier?, pairs))
    });
    let (identifier, pairs) = sound(new, problems)?;
    refuse_reserved_key(&pairs)?;
    match database(gateway.store.create_user(caller.app, &identifier, pairs)).await? {
        Some(user) => Ok(answer(&user)),
        None => {
            Err(Failure::refused(StatusCode::CONFLICT, "user_exists", "there is a user with this identifier"))
        }
    }
}

/// Merges pairs onto a user's profile, and creates the user if missing.
#[utoipa::path(
    put,
    path = "/v3/users/{identifier}",
    operation_id = "putUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    request_body = Option<Profile>,
    responses(
        (status = 200, description = "The user, with the whole profile.", body = UserBody),
        (status = 422, description = "The profile has the reserved key `identifier`."),
    ),
)]
pub(crate) async fn merge(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?.filter(|body| !body.is_null());
    let identifier = id.user()?;
    let mut problems = Vec::new();
    let body = body.unwrap_or_else(|| Value::Object(Object::new()));
    check_plain_json("", &body, &mut problems);
    let pairs = Fields::open("", body, &mut problems).map(Fields::rest);
    pairs.iter().for_each(|pairs| check_pairs("", pairs, &mut problems));
    let pairs = sound(pairs, problems)?;
    refuse_reserved_key(&pairs)?;
    Ok(answer(&database(gateway.store.merge_user(caller.app, &identifier, pairs)).await?))
}

fn check_pairs(path: &str, pairs: &Object, problems: &mut Vec<Problem>) {
    profile::check(path, pairs, problems);
    if serde_json::to_vec(pairs).map_or(usize::MAX, |text| text.len()) > MAX_PROFILE {
        problems.push(Problem::new(path, "too_long", format!("a profile has at most {MAX_PROFILE} bytes")));
    }
}

/// 422 where the pairs would rename the user.
fn refuse_reserved_key(pairs: &Object) -> Result<(), Failure> {
    if names_identifier(pairs) {
        let message = "the profile key identifier is reserved: a user cannot be renamed";
        return Err(Failure::refused(StatusCode::UNPROCESSABLE_ENTITY, "reserved_key", message));
    }
    Ok(())
}

fn answer(user: &User) -> HttpResponse {
    HttpResponse::Ok().json(UserBody { identifier: &user.identifier, profile: &user.profile })
}
