//! Cross-origin requests: which answers a browser hands to a script of another origin.

use crate::client::Answer;
use crate::service::{Behind, Service, plain_send};

const ORIGIN: &str = "https://shop.example";

fn allowed(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn a_preflight_is_decided_by_path_and_method() {
    let service = Service::start_with(Behind::Nothing).await;
    let cases = [
        ("/v3/notifications", "GET", Some("GET, HEAD")),
        ("/v3/notifications/", "HEAD", Some("GET, HEAD")),
        ("/v3/notifications", "POST", None),
        ("/v3/notifications", "BREW", None),
        ("/v3/notifications/7", "DELETE", Some("GET, HEAD, DELETE")),
        ("/v3/notifications/7/click", "PATCH", Some("POST, PATCH")),
        ("/v3/notifications/7/reads", "PUT", Some("PUT, POST, DELETE")),
        ("/v3/categories", "GET", Some("GET, HEAD")),
        ("/v3/categories", "POST", None),
        ("/v3/sdk/connect", "POST", Some("POST")),
        ("/v3/users", "POST", None),
        ("/v3/users/ada", "PUT", None),
        ("/v3/requests/7", "GET", None),
        ("/healthz", "GET", None),
    ];
    for (path, method, expected) in cases {
        let answer = service
            .call(&format!("OPTIONS {path}"))
            .header("Origin", ORIGIN)
            .header("Access-Control-Request-Method", method)
            .header("Access-Control-Request-Headers", "x-service-api-key,x-anything")
            .send()
            .await;
        assert_eq!(answer.status, 204, "{method} {path}");
        assert_eq!(answer.header("access-control-allow-methods"), expected, "{method} {path}");
        assert_eq!(allowed(&answer), expected.and(Some("*")), "{method} {path}");
        let headers = answer.header("access-control-allow-headers");
        assert_eq!(headers, expected.and(Some("x-service-api-key,x-anything")), "{method} {path}");
        assert_eq!(answer.header("access-control-max-age"), expected.and(Some("7200")), "{method} {path}");
    }
}

#[tokio::test]
async fn answers_of_calls_for_users_may_be_read_and_no_others() {
    let service = Service::start_with(Behind::Nothing).await;
    let shop = service.app("shop").await;
    let from = |call: &str| service.of(&shop, "ada", call).header("Origin", ORIGIN);
    let by_app = |call: &str| service.by(&shop, call).header("Origin", ORIGIN);
    let cases = [
        (from("GET /v3/notifications"), 200, true),
        (from("HEAD /v3/notifications"), 200, true),
        (from("OPTIONS /v3/notifications"), 204, true),
        (from("GET /v3/notifications?limit=0"), 400, true),
        (service.call("GET /v3/notifications").header("Origin", ORIGIN), 401, true),
        (from("GET /v3/notifications/7"), 404, true),
        (from("PUT /v3/notifications"), 405, true),
        (from("GET /v3/notifications").header("Accept", "text/html"), 406, true),
        (from("POST /v3/sdk/connect").body("{}", "text/plain"), 415, true),
        (by_app("GET /v3/categories"), 200, true),
        (by_app("POST /v3/notifications").json(&plain_send(&["ada"])), 202, false),
        (from("POST /v3/notifications"), 401, false),
        (by_app("POST /v3/users"), 400, false),
        (by_app("GET /v3/users"), 200, false),
        (by_app("GET /v3/nowhere"), 404, false),
        (by_app("GET /healthz"), 200, false),
    ];
    for (call, status, readable) in cases {
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(allowed(&answer), readable.then_some("*"), "{answer:?}");
        assert_eq!(answer.header("vary"), readable.then_some("Origin"), "{answer:?}");
        let exposed = answer.header("access-control-expose-headers");
        assert_eq!(exposed.is_some_and(|exposed| exposed.contains("X-Request-Id")), readable, "{answer:?}");
    }
    let same_origin = service.of(&shop, "ada", "GET /v3/notifications").send().await;
    assert_eq!((allowed(&same_origin), same_origin.header("vary")), (None, Some("Origin")));
}

#[tokio::test]
async fn an_app_can_name_the_origins() {
    let service = Service::start_with(Behind::Nothing).await;
    let (open, listed, closed) =
        (service.app("open").await, service.app("listed").await, service.app("closed").await);
    service
        .execute(
            "UPDATE app SET cors_origins = '{https://a.example,https://shop.example}' WHERE name = 'listed';
             UPDATE app SET cors_origins = '{}' WHERE name = 'closed'",
        )
        .await;
    let cases = [
        (&open, ORIGIN, Some("*")),
        (&open, "null", Some("*")),
        (&listed, ORIGIN, Some(ORIGIN)),
        (&listed, "https://a.example", Some("https://a.example")),
        (&listed, "http://shop.example", None),
        (&listed, "https://shop.example:8443", None),
        (&listed, "https://evil.shop.example", None),
        (&listed, "null", None),
        (&closed, ORIGIN, None),
    ];
    for (app, origin, expected) in cases {
        for (path, status) in [("/v3/notifications", 200), ("/v3/notifications/7", 404)] {
            let call = service.of(app, "ada", &format!("GET {path}")).header("Origin", origin);
            let answer = call.send().await;
            assert_eq!(answer.status, status);
            assert_eq!(allowed(&answer), expected, "{} {origin}", app.key);
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
    }
}
