//! The id of a request in its answer and in the log.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use service_kit::clock;

pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST: usize = 128;

/// Returns the client's request id if it has 1 to 128 letters, digits or `-_.:/+=`, otherwise a new one.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let sent = headers.get(&HEADER);
    let sent = sent.filter(|id| (1..=LONGEST).contains(&id.len()) && id.as_bytes().iter().all(is_plain));
    sent.cloned().unwrap_or_else(|| {
        let new = clock::new_id().to_string();
        HeaderValue::from_str(&new).unwrap_or(HeaderValue::from_static("-"))
    })
}
