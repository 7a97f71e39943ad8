//! `/v3/profile`: the profile of a user.

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use domain::body::{json, named};
use domain::fields::check_plain_json;
use domain::profile::{Change, MAX_OPERATIONS, MAX_USER_OPERATIONS, Patch, PatchSchema, ProfileSchema};
use operations::profile;
use serde_json::Value;
use web::admission::Admission;
use web::body::{Body, principal};
use web::failure::{Failure, valid_or_problems};
use web::handling::Handling;

use crate::access::caller::UserCaller;
use crate::directory::malformed_address::{self, with_warnings};
use crate::directory::users::read_pairs;
use crate::gateway::Gateway;
use crate::openapi::described::{self, JsonPatch, Profile};
use crate::openapi::vocabulary::FreeObject;

domain::schemas! {
    /// Key-value pairs to merge into the profile, or a JSON Patch.
    pub(crate) ProfileChange = |schemas| named(schemas, "ProfileChange", |schemas| json!({
        "description": "Key-value pairs to merge into the profile, or a JSON Patch.",
        "oneOf": [ProfileSchema::schema(schemas), PatchSchema::schema(schemas)],
    }));
}

/// Number of JSON Patch operations that count as one additional request against the rate limits. Applies only to callers
/// without the API secret.
pub const OPERATIONS_OF_A_REQUEST: usize = 10;

/// Gets the user's profile.
///
/// The profile of an unknown user is empty. If the app guards addresses (`address-keys=guarded`), a caller with only the public
/// key does not see the keys `email`, `phoneNumber`, `phone`, `fcm` and `apns`. The answers of PUT and PATCH omit them too.
#[utoipa::path(
    get,
    path = "/v3/profile",
    operation_id = "getProfile",
    tag = "profile",
    security(("user" = [])),
    responses((status = 200, description = "The whole profile.", body = FreeObject)),
)]
pub(crate) async fn retrieve(caller: UserCaller, gateway: Data<Gateway>) -> Result<HttpResponse, Failure> {
    Ok(HttpResponse::Ok().json(profile::find(&gateway.operations, &caller.caller).await?))
}

/// Merges key-value pairs into the profile.
///
/// The pairs replace existing keys; all other keys stay. `fcm` and `apns` are merged one level deeper: `token` is added to the
/// list `tokens`, and the sent `tokens` are added to the existing ones. The service keeps the latest 50 tokens of each push
/// service. Only the app's backend may set the key `app`; with other credentials the answer is 403 (`app_only`). A missing user
/// is created. An address that is malformed is stored, but nothing can be sent to it: the answer has a header `Warning` that names
/// the field. With `Prefer: handling=strict`, the answer is 400 instead.
#[utoipa::path(
    put,
    path = "/v3/profile",
    operation_id = "putProfile",
    tag = "profile",
    security(("user" = [])),
    request_body = Option<Profile>,
    responses(
        (status = 200, description = "The whole profile.", body = FreeObject),
        (status = 422, description = "The profile would have the reserved key `identifier`."),
    ),
)]
pub(crate) async fn merge(
    caller: UserCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let pairs = read_pairs(body.optional_json().await?)?;
    write(&caller, &gateway, Change::Merge(pairs), handling).await
}

/// Patches the profile.
///
/// An array is a JSON Patch (RFC 6902). The service applies all of its operations or none, and concurrent changes are not lost.
/// It may have at most 100 operations, or 1,000 with the API secret, and the number of operations times the size of the profile
/// in bytes must not exceed 1 MiB. An object is merged as PUT does. A missing user is created.
/// Malformed addresses are treated as in PUT.
#[utoipa::path(
    patch,
    path = "/v3/profile",
    operation_id = "patchProfile",
    tag = "profile",
    security(("user" = [])),
    request_body(content(
        (described::ProfileChange = "application/json"),
        (JsonPatch = "application/json-patch+json"),
    )),
    responses(
        (status = 200, description = "The whole profile.", body = FreeObject),
        (
            status = 422,
            description = "An operation cannot be applied: its `test` fails (`test_failed`) or its path does not exist \
                (`not_applicable`). Or the result would not be an object, or would have the reserved key `identifier`.",
        ),
    ),
)]
pub(crate) async fn change(
    caller: UserCaller,
    gateway: Data<Gateway>,
    handling: Handling,
    request: HttpRequest,
    body: Body,
) -> Result<HttpResponse, Failure> {
    let change = match body.json_or_patch().await? {
        Some(Value::Array(operations)) => {
            let times = operations.len() / OPERATIONS_OF_A_REQUEST;
            let patch = read_patch(&caller, operations, handling.strict)?;
            Admission::of(&request)?.charge(&request, principal(&request), times).await?;
            Change::Patch(patch)
        }
        body => Change::Merge(read_pairs(body)?),
    };
    write(&caller, &gateway, change, handling).await
}

fn read_patch(caller: &UserCaller, operations: Vec<Value>, strict: bool) -> Result<Patch, Failure> {
    let most = if caller.by_app { MAX_OPERATIONS } else { MAX_USER_OPERATIONS };
    let mut problems = Vec::new();
    // Do not check every operation of an array that is too long: `Patch::read` rejects it as a whole.
    for (index, operation) in operations.iter().take(most).enumerate() {
        check_plain_json(&format!("[{index}]"), operation, &mut problems);
    }
    let patch = Patch::read(operations, most, strict, &mut problems);
    valid_or_problems(Some(patch), problems)
}

async fn write(
    caller: &UserCaller,
    gateway: &Gateway,
    change: Change,
    handling: Handling,
) -> Result<HttpResponse, Failure> {
    let malformed = malformed_address::checked(change.malformed(), handling)?;
    let profile = profile::change(&gateway.operations, &caller.caller, change).await?;
    Ok(with_warnings(HttpResponse::Ok().json(profile), &malformed))
}
