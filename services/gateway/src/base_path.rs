//! Base URLs of server clients. Published clients append paths such as `/topics` to a base URL with or without `/v3`, and call workflows
//! below `/v4`.

use std::collections::HashSet;
use std::sync::LazyLock;

use actix_web::dev::ServiceRequest;
use web::request_path::rewrite;

use crate::routes;

const BASE: &str = "/v3";
/// Path of the one resource that clients also call below `/v4`.
const WORKFLOWS: &str = "/workflows/";

/// First segments of the paths below `/v3`.
static RESOURCES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let paths = routes::table().resources.into_iter().map(|(path, _, _)| path);
    paths.filter_map(|path| path.strip_prefix(BASE).and_then(first_segment)).collect()
});

/// Adds `/v3` to a path that lacks it, before the request is routed.
pub(crate) fn complete(request: &mut ServiceRequest) {
    let path = request.uri().path();
    let rest = match path.strip_prefix("/v4") {
        Some(rest) if rest.starts_with(WORKFLOWS) => Some(rest),
        _ => first_segment(path).is_some_and(|segment| RESOURCES.contains(segment)).then_some(path),
    };
    if let Some(rest) = rest {
        let completed = format!("{BASE}{rest}");
        rewrite(request, &completed);
    }
}

fn first_segment(path: &str) -> Option<&str> {
    path.strip_prefix('/')?.split('/').next()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_paths_of_the_api_get_its_base() {
        let cases = [
            ("/topics", "/v3/topics"),
            ("/topics/7?limit=2", "/v3/topics/7?limit=2"),
            ("/notifications/categories/a%2Fb", "/v3/notifications/categories/a%2Fb"),
            ("/workflows/welcome", "/v3/workflows/welcome"),
            ("/v4/workflows/welcome", "/v3/workflows/welcome"),
            ("/v4/topics", "/v4/topics"),
            ("/v3/topics", "/v3/topics"),
            ("/docs", "/docs"),
            ("/clients/client/index.js", "/clients/client/index.js"),
            ("/socket.io?EIO=4", "/socket.io?EIO=4"),
            ("/unknown", "/unknown"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            let mut request = TestRequest::with_uri(path).to_srv_request();
            complete(&mut request);
            assert_eq!(request.uri().to_string(), expected, "{path}");
        }
    }
}
