//! Device secrets. A caller with only the app's public key sends one to prove that it is a known device of the user.

use actix_web::HttpRequest;
use operations::devices::OwnDevice;
use web::failure::Failure;
use web::headers::Credential;

use crate::access::Access;
use crate::access::caller::UserCaller;

/// Returns a device with the secret in the request's header. Callers that need no secret send none that counts.
pub(crate) fn device_of<'a>(
    request: &'a HttpRequest,
    caller: &UserCaller,
    id: &'a str,
) -> Result<OwnDevice<'a>, Failure> {
    let secret = if caller.needs_device_secret() {
        Access::of(request)?.header_names.read(request.headers(), Credential::DeviceSecret)?
    } else {
        None
    };
    Ok(OwnDevice { id, secret })
}
