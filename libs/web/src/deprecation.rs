//! The headers `Deprecation` (RFC 9745) and `Link` of answers to requests that use deprecated features.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, LINK};
use actix_web::{HttpMessage, HttpRequest};

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// Value of `Deprecation`: the time of deprecation in Unix seconds, 2025-01-01T00:00:00Z.
const SINCE: HeaderValue = HeaderValue::from_static("@1735689600");
/// Value of `Link`: the page that describes the replacements.
const EXPLAINED: HeaderValue = HeaderValue::from_static("</docs>; rel=\"deprecation\"; type=\"text/html\"");

struct Deprecated;

/// Marks a request as using a deprecated feature. The answer gets both headers, whatever its status.
pub fn note(request: &HttpRequest) {
    request.extensions_mut().insert(Deprecated);
}

/// Returns true if a request is marked as using a deprecated feature.
pub fn is_noted(request: &HttpRequest) -> bool {
    request.extensions().contains::<Deprecated>()
}

/// Adds both headers to an answer.
pub fn add(headers: &mut HeaderMap) {
    headers.insert(DEPRECATION, SINCE);
    headers.append(LINK, EXPLAINED);
}
