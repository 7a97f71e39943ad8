//! `/v3/users`: the users of an app.

use actix_web::HttpResponse;
use actix_web::web::Data;
use domain::body::Body as _;
use domain::body::kind::{As, FreeObject as FreeMember, Identifier as IdentifierMember};
use domain::content::Object;
use domain::fields::{Fields, MAX_IDENTIFIER, check_plain_json};
use domain::profile::ProfileSchema;
use domain::{DeviceType, Problem, Timestamp, profile};
use operations::users::{self, UserFilter};
use serde::Serialize;
use serde_json::Value;
use store::directory::device::Device;
use store::directory::user::User;
use utoipa::ToSchema;
use web::body::Body;
use web::cursor;
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;
use web::path_id::PathId;
use web::query::Query;

use crate::access::caller::AppCaller;
use crate::directory::malformed_address::{self, with_warnings};
use crate::gateway::Gateway;
use crate::openapi::described;
use crate::openapi::vocabulary::{Cursor, FreeObject, Identifier, Time};

/// Default number of users on a page.
const PAGE: i64 = 20;
const LARGEST_PAGE: i64 = 100;

domain::body! {
    /// A user to create.
    pub(crate) struct NewUser {
        required identifier: IdentifierMember,
        optional profile: As<ProfileSchema, FreeMember>,
    }
    example {"identifier": "ada", "profile": {"email": "ada@example.com", "name": "Ada"}}
}

/// A user of an app.
#[derive(Serialize, ToSchema)]
#[schema(as = User, example = json!({"identifier": "ada", "profile": {"email": "ada@example.com", "name": "Ada"}}))]
struct UserBody<'a> {
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    #[schema(value_type = FreeObject)]
    profile: &'a Object,
}

/// A user of an app, with all stored data except the inbox.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KnownUser, example = json!({
    "identifier": "ada",
    "profile": {"email": "ada@example.com", "name": "Ada"},
    "devices": [
        {"deviceId": "d1", "deviceType": "browser", "connectedAt": "2027-01-31T09:00:00.000Z", "webPush": true}
    ],
    "createdAt": "2027-01-30T09:00:00.000Z",
}))]
struct KnownUserBody<'a> {
    #[schema(value_type = Identifier)]
    identifier: &'a str,
    #[schema(value_type = FreeObject)]
    profile: &'a Object,
    /// The devices, most recently connected first; at most 50.
    devices: Vec<DeviceBody<'a>>,
    /// Time at which the user was created.
    #[schema(value_type = Time)]
    created_at: Timestamp,
}

/// A device that a user signed in on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KnownDevice)]
struct DeviceBody<'a> {
    #[schema(value_type = Identifier)]
    device_id: &'a str,
    /// `browser`, `android` or `ios`; null if unknown.
    device_type: Option<&'a str>,
    #[schema(value_type = Time)]
    connected_at: Timestamp,
    /// True if the device has a web-push subscription that is neither expired nor suppressed.
    web_push: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Users, example = json!({"data": [{
    "identifier": "ada",
    "profile": {"email": "ada@example.com", "name": "Ada"},
    "devices": [],
    "createdAt": "2027-01-30T09:00:00.000Z",
}], "nextCursor": "MQ"}))]
struct Listing<'a> {
    data: Vec<KnownUserBody<'a>>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// Creates a user.
///
/// An address that is malformed is stored, but nothing can be sent to it: the answer has a header `Warning` that names the field.
/// With `Prefer: handling=strict`, the answer is 400 instead.
#[utoipa::path(
    post,
    path = "/v3/users",
    operation_id = "createUser",
    tag = "users",
    security(("app" = [])),
    request_body = described::NewUser,
    responses(
        (status = 200, description = "The new user.", body = UserBody),
        (status = 409, description = "A user with this identifier already exists."),
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
    let new = NewUser::open("", body, &mut problems).and_then(|new| {
        let (identifier, pairs) = new.read(handling.strict, &mut problems);
        Some((identifier?, pairs))
    });
    let (identifier, pairs) = valid_or_problems(new, problems)?;
    let malformed = malformed_address::checked(profile::malformed("profile", &pairs), handling)?;
    let user = users::create(&gateway.operations, &caller.backend, caller.app, &identifier, pairs).await?;
    Ok(with_warnings(answer(&user), &malformed))
}

/// Merges key-value pairs into a user's profile, and creates the user if missing.
///
/// An address that is malformed is stored, but nothing can be sent to it: the answer has a header `Warning` that names the field.
/// With `Prefer: handling=strict`, the answer is 400 instead.
#[utoipa::path(
    put,
    path = "/v3/users/{identifier}",
    operation_id = "putUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    request_body = Option<described::Profile>,
    responses(
        (status = 200, description = "The user, with the whole profile.", body = UserBody),
        (status = 422, description = "The profile has the reserved key `identifier`."),
    ),
)]
pub(crate) async fn merge(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let body = body.optional_json().await?;
    let identifier = id.user()?;
    let pairs = read_pairs(body)?;
    let malformed = malformed_address::checked(profile::malformed("", &pairs), handling)?;
    let user = users::merge(&gateway.operations, &caller.backend, caller.app, &identifier, pairs).await?;
    Ok(with_warnings(answer(&user), &malformed))
}

/// Gets a user with profile and devices.
#[utoipa::path(
    get,
    path = "/v3/users/{identifier}",
    operation_id = "getUser",
    tag = "users",
    security(("app" = [])),
    params(("identifier" = Identifier, Path, description = "The user's identifier.")),
    responses((status = 200, description = "The user.", body = KnownUserBody)),
)]
pub(crate) async fn retrieve(
    caller: AppCaller,
    gateway: Data<Gateway>,
    id: PathId,
) -> Result<HttpResponse, Failure> {
    let identifier = id.user()?;
    let found = users::find(&gateway.operations, &caller.backend, caller.app, &identifier);
    let (user, devices) = found.await?;
    Ok(HttpResponse::Ok().json(present(&user, &devices)))
}

/// Lists the users of the app, in order of creation.
///
/// `email`, `phoneNumber` and `q` find users, and exclude each other. The users that `q` finds are ordered by what was found: the
/// identifier, the address, then the name. A page of them may have fewer users than `limit`, even none: follow `nextCursor` until it is null.
#[utoipa::path(
    get,
    path = "/v3/users",
    operation_id = "listUsers",
    tag = "users",
    security(("app" = [])),
    params(
        (
            "limit" = Option<i64>,
            Query,
            description = "Maximum number of users on the page; 20 by default.",
            minimum = 1,
            maximum = 100
        ),
        ("cursor" = inline(Option<Cursor>), Query, description = "The `nextCursor` of an earlier answer with the same filter."),
        ("email" = Option<String>, Query, description = "Only users with this email address. Upper and lower case make no difference. The identifier of a user without the key `email` counts as the address.", min_length = 1, max_length = 255),
        ("phoneNumber" = Option<String>, Query, description = "Only users with this phone number. Spaces, hyphens, dots and parentheses make no difference.", min_length = 1, max_length = 255),
        ("q" = Option<String>, Query, description = "Only users whose identifier, email address or name begins with this text. Upper and lower case make no difference.", min_length = 1, max_length = 255),
    ),
    responses((status = 200, description = "A page of users.", body = Listing)),
)]
pub(crate) async fn list(
    caller: AppCaller,
    gateway: Data<Gateway>,
    query: Query,
) -> Result<HttpResponse, Failure> {
    let mut problems = Vec::new();
    let limit = query.number("limit", 1..=LARGEST_PAGE, &mut problems).unwrap_or(PAGE);
    let search = Search::read(&query, &mut problems);
    let filter = search.as_ref().map_or(UserFilter::All, Search::filter);
    let after = cursor::read(&query, |text| filter.place(text), &mut problems);
    query.finish(&mut problems);
    valid_or_problems(Some(()), problems)?;
    let limit = usize::try_from(limit).unwrap_or_default();
    let page = users::list(&gateway.operations, &caller.backend, caller.app, filter, after, limit).await?;
    Ok(HttpResponse::Ok().json(Listing {
        data: page.users.iter().map(|(user, devices)| present(user, devices)).collect(),
        next_cursor: page.next.map(cursor::write),
    }))
}

/// Search of a list.
enum Search {
    Email(String),
    PhoneNumber(String),
    Start(String),
}

impl Search {
    fn read(query: &Query, problems: &mut Vec<Problem>) -> Option<Search> {
        let mut text = |name| {
            let text = query.filter(name, problems)?;
            if text.len() > MAX_IDENTIFIER {
                let message = format!("{name} must have at most {MAX_IDENTIFIER} bytes");
                problems.push(Problem::new(name, "too_long", message));
            }
            Some(text)
        };
        let (email, number, start) = (text("email"), text("phoneNumber"), text("q"));
        // In a query string, a plus sign that is not encoded is a space.
        let number = number.map(|number| match number.strip_prefix(' ') {
            Some(digits) => format!("+{digits}"),
            None => number,
        });
        if number.as_ref().is_some_and(|number| !number.bytes().any(|byte| byte.is_ascii_digit())) {
            problems.push(Problem::new("phoneNumber", "invalid_number", "phoneNumber must have digits"));
        }
        let found = [email.map(Search::Email), number.map(Search::PhoneNumber), start.map(Search::Start)];
        let mut found = found.into_iter().flatten();
        let search = found.next();
        if found.next().is_some() {
            let message = "email, phoneNumber and q exclude each other; send one of them";
            problems.push(Problem::new("", "conflict", message));
        }
        search
    }

    fn filter(&self) -> UserFilter<'_> {
        match self {
            Search::Email(email) => UserFilter::Email(email),
            Search::PhoneNumber(number) => UserFilter::PhoneNumber(number),
            Search::Start(start) => UserFilter::Start(start),
        }
    }
}

impl NewUser {
    /// Reads the identifier, and the key-value pairs of the profile.
    pub(super) fn read(mut self, strict: bool, problems: &mut Vec<Problem>) -> (Option<String>, Object) {
        let identifier = self.identifier(problems);
        let pairs = self.profile(problems).unwrap_or_default();
        profile::check(&self.fields.path("profile"), &pairs, problems);
        self.fields.finish(strict, problems);
        (identifier, pairs)
    }
}

/// Reads the key-value pairs to merge into a profile. A missing body has no pairs.
pub(super) fn read_pairs(body: Option<Value>) -> Result<Object, Failure> {
    let body = body.filter(|body| !body.is_null()).unwrap_or_else(|| Value::Object(Object::new()));
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let pairs = Fields::open("", body, &mut problems).map(Fields::rest);
    pairs.iter().for_each(|pairs| profile::check("", pairs, &mut problems));
    valid_or_problems(pairs, problems)
}

fn answer(user: &User) -> HttpResponse {
    HttpResponse::Ok().json(UserBody { identifier: &user.identifier, profile: &user.profile })
}

fn present<'a>(user: &'a User, devices: &'a [Device]) -> KnownUserBody<'a> {
    let devices = devices.iter().map(|device| DeviceBody {
        device_id: &device.device_id,
        device_type: device.device_type.map(DeviceType::as_str),
        connected_at: device.connected_at,
        web_push: device.web_push,
    });
    KnownUserBody {
        identifier: &user.identifier,
        profile: &user.profile,
        devices: devices.collect(),
        created_at: user.created_at,
    }
}
