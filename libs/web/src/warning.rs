//! The header `Warning` with the code 299 (RFC 7234, section 5.5). RFC 9111 removed it, but clients show it.

use actix_web::http::header::HeaderValue;

/// Returns the value of the header. None if the text has characters that a header cannot contain.
#[must_use]
pub fn value(text: &str) -> Option<HeaderValue> {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{escaped}\"")).ok()
}
