//! Cross-origin requests: the answers that a browser passes to a script of another origin.

use crate::client::Answer;
use crate::service::{Backing, Service, plain_send};

const ORIGIN: &str = "https://shop.example";

fn allowed(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn a_preflight_is_decided_by_path_and_method() {
    let service = Service::start_with(Backing::Nothing).await;
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
        ("/v3/topics", "GET", Some("GET, HEAD")),
        ("/v3/topics/news", "PUT", None),
        ("/v3/topics/news/subscription", "PUT", Some("GET, HEAD, PUT, DELETE")),
        ("/v3/topics/news/subscriptions", "POST", None),
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
async fn only_answers_of_user_calls_are_readable_across_origins() {
    let service = Service::start_with(Backing::Nothing).await;
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
        assert_eq!(answer.header("vary") == Some("Origin"), readable, "{answer:?}");
        let exposed = answer.header("access-control-expose-headers");
        assert_eq!(exposed.is_some_and(|exposed| exposed.contains("X-Request-Id")), readable, "{answer:?}");
    }
    let same_origin = service.of(&shop, "ada", "GET /v3/notifications").send().await;
    assert_eq!((allowed(&same_origin), same_origin.header("vary")), (None, Some("Origin")));
}

#[tokio::test]
async fn an_app_can_restrict_origins() {
    let service = Service::start_with(Backing::Nothing).await;
    let (open, listed, closed) =
        (service.app("open").await, service.app("listed").await, service.app("closed").await);
    service
        .run(
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
            assert_eq!(answer.status, if expected.is_some() { status } else { 403 }, "{answer:?}");
            assert_eq!(allowed(&answer), expected, "{} {origin}", app.key);
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
    }
}

#[tokio::test]
async fn a_page_of_an_unlisted_origin_cannot_write() {
    let service = Service::start_with(Backing::Nothing).await;
    let (listed, open) = (service.app("listed").await, service.app("open").await);
    service.run("UPDATE app SET cors_origins = '{https://shop.example}' WHERE name = 'listed'").await;
    let put = |app, origin: Option<&str>, name: &str| {
        let call = service.of(app, "ada", "PUT /v3/profile").json(&serde_json::json!({ "name": name }));
        origin.into_iter().fold(call, |call, origin| call.header("Origin", origin)).send()
    };
    put(&listed, Some(ORIGIN), "Ada").await.is(200);
    for origin in ["https://evil.example", "https://shop.example.evil.example", "http://shop.example", "null"]
    {
        put(&listed, Some(origin), "Mallory").await.fails(403, "origin_not_allowed");
    }
    let profile = service.of(&listed, "ada", "GET /v3/profile").send().await.is(200);
    assert_eq!(profile["name"], "Ada");
    // These three succeed: a call without `Origin`, a call by the app's backend, and a call from any page if the app lists no
    // origins.
    put(&listed, None, "Ada").await.is(200);
    let backend = service.by(&listed, "PUT /v3/users/ada").header("Origin", "https://evil.example");
    backend.json(&serde_json::json!({"name": "Ada"})).send().await.is(200);
    put(&open, Some("https://evil.example"), "Ada").await.is(200);
}

#[tokio::test]
async fn answers_with_personal_data_are_not_cacheable() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    for call in [
        service.of(&shop, "ada", "GET /v3/profile"),
        service.of(&shop, "ada", "GET /v3/notifications"),
        service.of(&shop, "ada", "GET /v3/notifications/7"),
        service.by(&shop, "GET /v3/users"),
        service.call("GET /v3/profile"),
        service.call("POST /v3/push/click/nothing"),
    ] {
        let answer = call.send().await;
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        let vary: Vec<_> =
            answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
        let vary = vary.join(", ");
        for name in
            ["authorization", "x-service-api-key", "x-service-user-id", "x-acme-user-id", "x-acme-secret-key"]
        {
            assert!(vary.split(", ").any(|known| known == name), "{name} is not in {vary}");
        }
    }
    let document = service.call("GET /openapi.json").send().await;
    assert_eq!(document.header("cache-control"), Some("no-cache"));
    assert_eq!(document.header("x-content-type-options"), Some("nosniff"));
}
