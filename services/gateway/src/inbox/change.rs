//! Answers to changes of inboxes.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use web::status_body::status_body;

/// Creates the 202 for a change that the inbox did not show in time.
pub(crate) fn not_shown_yet() -> HttpResponse {
    status_body(StatusCode::ACCEPTED, "the change is stored and will soon be visible")
}
