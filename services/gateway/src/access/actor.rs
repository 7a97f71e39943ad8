//! The caller of a change, as the audit log records it.

use actix_web::HttpRequest;

use crate::http::shares::peer::Peer;

/// Returns `api:` and the address of the caller, who has proven the API secret.
pub(crate) fn of(request: &HttpRequest) -> String {
    format!("api:{}", Peer::of_request(request))
}
