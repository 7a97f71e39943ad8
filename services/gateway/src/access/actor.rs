//! The caller that made a change, as the audit log records it.

use actix_web::HttpRequest;
use web::peer;

/// Returns `api:`, followed by the address of the caller. Only callers with the API secret make such changes.
pub(crate) fn of(request: &HttpRequest) -> String {
    format!("api:{}", peer::of_request(request))
}
