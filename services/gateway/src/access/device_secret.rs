//! Device secrets. A caller with only the app's public key sends one to prove that it is a known device of the user.

use actix_web::HttpRequest;
use credentials::secrets::{constant_time_eq, random_token, sha256};
use store::Store;
use web::database::database;
use web::failure::Failure;
use web::headers::Credential;

use crate::access::Access;
use crate::access::caller::UserCaller;

/// Number of random bytes of a secret.
const BYTES: usize = 32;

pub(crate) fn create() -> Result<String, Failure> {
    random_token("ds_", BYTES).map_err(|error| Failure::Defect(error.to_string()))
}

/// Verifies the device secret of a request in constant time and returns its digest. None if the request has no device secret; 401 if
/// it is wrong.
pub(crate) async fn verify(
    store: &Store,
    request: &HttpRequest,
    caller: &UserCaller,
    device_id: &str,
) -> Result<Option<[u8; 32]>, Failure> {
    let Some(sent) = Access::of(request)?.header_names.read(request.headers(), Credential::DeviceSecret)?
    else {
        return Ok(None);
    };
    let digest = sha256(sent.as_bytes());
    let known = database(store.directory().device_secret(caller.app.id, &caller.user, device_id)).await?;
    if known.is_some_and(|known| constant_time_eq(&known, &digest)) {
        return Ok(Some(digest));
    }
    let message =
        "the device secret is wrong, or revoked by a call with a proof: send a bearer token of the user";
    Err(Failure::unauthorized("invalid_device_secret", message))
}
