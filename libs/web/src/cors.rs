//! Cross-origin requests (Fetch standard, "HTTP-CORS protocol"). A page of another origin may make the API calls that are meant
//! for users' browsers, but not the calls that are meant for an app's backend.

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
};

use crate::admission::RequestApp;
use crate::call::Calls;

const ANY: HeaderValue = HeaderValue::from_static("*");
/// Answer headers that scripts may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-Request-Id, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Deprecation, Link, Allow, Warning",
);
/// Seconds for which a browser may cache the answer to a preflight request. Browsers allow no more.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");
const PREFLIGHT_VARIES: HeaderValue =
    HeaderValue::from_static("Origin, Access-Control-Request-Method, Access-Control-Request-Headers");

/// Returns the CORS headers of an answer. Call it after the request is served, because only then are the called path and the
/// app known.
pub fn headers(request: &HttpRequest) -> Vec<(HeaderName, HeaderValue)> {
    let Some(calls) = request.app_data::<Calls>() else {
        return Vec::new();
    };
    let wanted = request.headers().get(ACCESS_CONTROL_REQUEST_METHOD);
    match wanted.filter(|_| request.method() == Method::OPTIONS) {
        Some(wanted) => preflight(request, calls, wanted),
        None if calls.is_for_users(request.method()) => answer(request),
        None => Vec::new(),
    }
}

/// Returns the CORS headers of the answer to a preflight request; none if the method in `wanted` is not for users. A preflight
/// request has no credentials, so its app is unknown, and every origin is allowed.
fn preflight(request: &HttpRequest, calls: &Calls, wanted: &HeaderValue) -> Vec<(HeaderName, HeaderValue)> {
    let methods: Vec<_> = calls.for_users().map(Method::as_str).collect();
    let may = wanted.to_str().is_ok_and(|wanted| methods.contains(&wanted));
    let Some(methods) = HeaderValue::from_str(&methods.join(", ")).ok().filter(|_| may) else {
        return Vec::new();
    };
    let mut headers = vec![
        (ACCESS_CONTROL_ALLOW_ORIGIN, ANY),
        (ACCESS_CONTROL_ALLOW_METHODS, methods),
        (ACCESS_CONTROL_MAX_AGE, REMEMBERED),
        (VARY, PREFLIGHT_VARIES),
    ];
    let asked = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS);
    headers.extend(asked.map(|asked| (ACCESS_CONTROL_ALLOW_HEADERS, asked.clone())));
    headers
}

/// Returns the CORS headers of the answer to any request that is not a preflight. If the app is unknown, for example after wrong
/// credentials, every origin is allowed, because the answer contains nothing that a script of another origin could misuse.
fn answer(request: &HttpRequest) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = vec![(VARY, HeaderValue::from_static("Origin"))];
    let Some(origin) = request.headers().get(ORIGIN) else {
        return headers;
    };
    let names_origins = RequestApp::of(request).is_some_and(|request_app| request_app.names_origins());
    let allowed = match (names_origins, RequestApp::admits_origin(request)) {
        (false, _) => Some(ANY),
        (true, true) => Some(origin.clone()),
        (true, false) => None,
    };
    if let Some(allowed) = allowed {
        headers.extend([(ACCESS_CONTROL_ALLOW_ORIGIN, allowed), (ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED)]);
    }
    headers
}
