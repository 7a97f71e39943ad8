//! The caller that made a change, as the audit log records it.

use actix_web::HttpRequest;
use domain::Actor;
use web::peer;

/// Returns the backend at the address of the caller. Only callers with the API secret make such changes.
pub(crate) fn of(request: &HttpRequest) -> Actor {
    Actor::App(peer::of_request(request).address())
}
