//! The caller that made a change, as the audit log records it.

use actix_web::HttpRequest;

use crate::http::shares::peer::Peer;

/// Returns `api:`, followed by the address of the caller. Only callers with the API secret make such changes.
pub(crate) fn of(request: &HttpRequest) -> String {
    format!("api:{}", Peer::of_request(request))
}
