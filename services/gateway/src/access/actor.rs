//! The caller of a change, for the audit log.

use actix_web::HttpRequest;

/// `api:` and the address of the caller, who has proven the API secret.
pub(crate) fn of(request: &HttpRequest) -> String {
    match request.peer_addr() {
        Some(peer) => format!("api:{}", peer.ip()),
        None => "api".to_owned(),
    }
}
