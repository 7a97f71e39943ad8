//! Changes of the path of a request before it is routed. Every route accepts a slash at its end.

use actix_web::dev::ServiceRequest;
use actix_web::http::Uri;

/// Removes a slash at the end of the path before the request is routed. Each route then needs only one pattern, and the router
/// needs no regular expression for a pattern that has no parameters.
pub fn trim(request: &mut ServiceRequest) {
    let trimmed = request.uri().path().strip_suffix('/').filter(|path| !path.is_empty()).map(str::to_owned);
    if let Some(path) = trimmed {
        rewrite(request, &path);
    }
}

/// Replaces the path of a request before it is routed. The query stays.
pub fn rewrite(request: &mut ServiceRequest, path: &str) {
    if let Some(uri) = with_path(request.uri(), path) {
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
}

/// Returns the URI with another path. None if that is not the path of a URI.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::trim;

    #[test]
    fn one_slash_is_removed_and_the_query_stays() {
        let cases = [
            ("/v3/users/", "/v3/users"),
            ("/v3/users/?a=/", "/v3/users?a=/"),
            ("/v3/users//", "/v3/users/"),
            ("/v3/users/a%2F/", "/v3/users/a%2F"),
            ("/v3/users?a=/", "/v3/users?a=/"),
            ("/v3/users/a%2F", "/v3/users/a%2F"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            let mut request = TestRequest::with_uri(path).to_srv_request();
            trim(&mut request);
            assert_eq!(request.uri().to_string(), expected, "{path}");
        }
    }
}
