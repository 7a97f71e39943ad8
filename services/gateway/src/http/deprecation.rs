//! The `Deprecation` header (RFC 9745) of answers to requests that use what is deprecated.

use actix_web::http::header::{HeaderName, HeaderValue};

/// When version 3 of the interface deprecated it, in Unix seconds.
const SINCE: HeaderValue = HeaderValue::from_static("@1735689600");

/// The header, for a response.
pub(crate) fn header() -> (HeaderName, HeaderValue) {
    (HeaderName::from_static("deprecation"), SINCE)
}
