//! `Deprecation` (RFC 9745) and the link beside it, on answers to requests that use what is deprecated.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, LINK};
use actix_web::{HttpMessage, HttpRequest};

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// When version 3 of the interface deprecated it, in Unix seconds.
const SINCE: HeaderValue = HeaderValue::from_static("@1735689600");
/// URL that describes the replacement.
const EXPLAINED: HeaderValue = HeaderValue::from_static("</docs>; rel=\"deprecation\"; type=\"text/html\"");

struct Deprecated;

/// Notes that a request uses what is deprecated, whatever it will be answered.
pub(crate) fn note(request: &HttpRequest) {
    request.extensions_mut().insert(Deprecated);
}

/// Returns true if a request is marked as deprecated.
pub(crate) fn is_noted(request: &HttpRequest) -> bool {
    request.extensions().contains::<Deprecated>()
}

/// Adds the headers to an answer.
pub(crate) fn add(headers: &mut HeaderMap) {
    headers.insert(DEPRECATION, SINCE);
    headers.append(LINK, EXPLAINED);
}
