//! Removal of a slash at the end of a path. Every route accepts such a slash.

use actix_web::dev::ServiceRequest;
use actix_web::http::Uri;

/// Removes a slash at the end of the path before the request is routed. Each route then needs only one pattern, and the router
/// needs no regular expression for a pattern that has no parameters.
pub fn trim(request: &mut ServiceRequest) {
    if let Some(uri) = trimmed(request.uri()) {
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
}

/// Returns the URI without the slash at the end of its path. None if there is no such slash, or if the path is only `/`.
fn trimmed(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix('/').filter(|path| !path.is_empty())?;
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
    use actix_web::http::Uri;

    use super::trimmed;

    #[test]
    fn one_slash_is_removed_and_the_query_stays() {
        let cases = [
            ("/v3/users/", Some("/v3/users")),
            ("/v3/users/?a=/", Some("/v3/users?a=/")),
            ("/v3/users//", Some("/v3/users/")),
            ("/v3/users/a%2F/", Some("/v3/users/a%2F")),
            ("/v3/users?a=/", None),
            ("/v3/users/a%2F", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            let trimmed = trimmed(&Uri::from_static(path)).map(|uri| uri.to_string());
            assert_eq!(trimmed.as_deref(), expected, "{path}");
        }
    }
}
