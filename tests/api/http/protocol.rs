//! Routes, methods, the order of the checks, and the headers of every answer.

use serde_json::{Value, json};

use crate::client::Call;
use crate::service::{Backing, Service, plain_send};

const SEND: &str = "POST /v3/notifications";

#[tokio::test]
async fn unknown_routes_are_404_and_known_ones_name_their_methods() {
    let service = Service::start_with(Backing::Nothing).await;
    for path in [
        "/v3",
        "/v3/",
        "/v4/notifications",
        "/v3/notifications/1/reads/2",
        "/v2/notifications",
        "/nothing",
        "/v3//users",
    ] {
        service.call(&format!("GET {path}")).send().await.fails(404, "not_found");
    }
    let cases = [
        ("DELETE", "/v3/notifications", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/v3/notifications/1", "GET, HEAD, DELETE, OPTIONS"),
        ("GET", "/v3/notifications/1/click", "POST, PATCH, OPTIONS"),
        ("GET", "/v3/notifications/1/reads", "PUT, POST, DELETE, OPTIONS"),
        ("PATCH", "/v3/notifications/1/views/", "PUT, POST, DELETE, OPTIONS"),
        ("GET", "/v3/notifications/categories", "POST, OPTIONS"),
        ("PUT", "/v3/categories", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/v3/topics", "GET, HEAD, POST, OPTIONS"),
        ("POST", "/v3/topics/news", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("DELETE", "/v3/topics/news/subscriptions", "GET, HEAD, POST, OPTIONS"),
        ("POST", "/v3/topics/news/subscription", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("PUT", "/v3/users", "GET, HEAD, POST, OPTIONS"),
        ("POST", "/v3/users/ada", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("POST", "/v3/users/ada/topics", "GET, HEAD, OPTIONS"),
        ("GET", "/v3/sdk/connect", "POST, OPTIONS"),
        ("POST", "/v3/requests/1", "GET, HEAD, DELETE, OPTIONS"),
        ("POST", "/v3/requests/1/deliveries", "GET, HEAD, OPTIONS"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("BREW", "/readyz/", "GET, HEAD, OPTIONS"),
    ];
    for (method, path, allow) in cases {
        let answer = service.call(&format!("{method} {path}")).send().await;
        answer.fails(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
        let options = service.call(&format!("OPTIONS {path}")).send().await;
        assert_eq!((options.status, options.header("allow")), (204, Some(allow)), "{path}");
    }
}

#[tokio::test]
async fn checks_run_in_order_from_route_to_validation() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let large = vec![b'x'; gateway::MAX_BODY + 1];
    service.call("POST /v3/nowhere").body(&*large, "text/plain").send().await.fails(404, "not_found");
    service
        .call("PUT /v3/notifications")
        .body(&*large, "text/plain")
        .send()
        .await
        .fails(405, "method_not_allowed");
    service.call(SEND).body(&*large, "text/plain").send().await.fails(401, "no_credentials");
    service.by(&shop, SEND).body(&*large, "text/plain").send().await.fails(413, "too_large");
    service.by(&shop, SEND).body("{}", "text/plain").send().await.fails(415, "unsupported_media_type");
    service
        .by(&shop, SEND)
        .body("{", "application/json")
        .send()
        .await
        .has_problems(&[("", "malformed_json")]);
}

#[tokio::test]
async fn an_internal_error_is_answered_with_an_id_and_no_details() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .run(
            "INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE SELECT id, 1, 'ada' FROM app;
             INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             SELECT id, 1, 5, gen_random_uuid(), now(), '\"what the projection never writes\"', gen_random_uuid()
             FROM app",
        )
        .await;
    let answer = service.by(&shop, "GET /v3/notifications/5").send().await.is(500);
    let id = answer["errorId"].as_str().unwrap();
    assert_eq!(id.len(), 36);
    let expected = json!({"status": "error", "message": "internal error", "code": "internal", "errorId": id});
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let service = Service::start_with(Backing::Nothing).await;
    let ids = async |sent: &str| {
        let answer = service.call("GET /healthz").header("X-Request-Id", sent).send().await;
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(ids("abc-123_4.5:6/7+8=").await, "abc-123_4.5:6/7+8=");
    let long = "x".repeat(129);
    for malformed in ["", "a b", "a\tb", "<x>", "é", &long] {
        let id = ids(malformed).await;
        assert_eq!((id != malformed, id.len()), (true, 36), "{malformed}: {id}");
    }
    assert_ne!(ids("").await, ids("").await);
}

#[tokio::test]
async fn every_get_also_answers_head() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].clone();
    for path in
        ["/v3/notifications", "/v3/categories", "/healthz", "/readyz", &format!("/v3/notifications/{id}")]
    {
        let head = service.of(&shop, "ada", &format!("HEAD {path}")).send().await;
        assert_eq!((head.status, &head.body), (200, &Value::Null), "{path}");
        assert_eq!(head.header("content-type"), Some("application/json"), "{path}");
    }
    let unseen = service.list(&shop, "ada", "").await["unseenCount"].clone();
    assert_eq!(unseen, 1, "HEAD on a notification changes nothing");
    let head = service.call("HEAD /v3/notifications").send().await;
    assert_eq!((head.status, &head.body), (401, &Value::Null));
    service.by(&shop, "HEAD /v3/sdk/connect").send().await.is(405);
}

#[tokio::test]
async fn a_caller_that_does_not_accept_json_gets_a_406_after_earlier_checks() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let html = |call: Call| call.header("Accept", "text/html");
    for accept in ["text/html", "application/json;q=0, */*", "application/problem+json"] {
        let list = service.of(&shop, "ada", "GET /v3/notifications").header("Accept", accept);
        list.send().await.fails(406, "not_acceptable");
        let send = service.by(&shop, SEND).header("Accept", accept).json(&plain_send(&["ada"]));
        send.send().await.fails(406, "not_acceptable");
        service
            .of(&shop, "ada", "POST /v3/notifications/1/click")
            .header("Accept", accept)
            .send()
            .await
            .is(406);
    }
    for accept in ["*/*", "text/html, application/*;q=0.1", "application/json", ""] {
        service.of(&shop, "ada", "GET /v3/notifications").header("Accept", accept).send().await.is(200);
    }
    let large = vec![b'x'; gateway::MAX_BODY + 1];
    html(service.call("GET /v3/nowhere")).send().await.fails(404, "not_found");
    html(service.call("PUT /v3/notifications")).send().await.fails(405, "method_not_allowed");
    html(service.call(SEND)).send().await.fails(401, "no_credentials");
    html(service.by(&shop, SEND)).body(large, "application/json").send().await.fails(413, "too_large");
    html(service.by(&shop, SEND)).body("{", "application/json").send().await.fails(406, "not_acceptable");
    html(service.call("GET /healthz")).send().await.is(200);
    assert_eq!(service.sends().await, 0);
}

#[tokio::test]
async fn deprecated_calls_carry_the_deprecation_header() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let signing = service.app("signing").await;
    service.run("UPDATE app SET hmac = true WHERE name = 'signing'").await;
    let list = |app| service.of(app, "ada", "GET /v3/notifications");
    let old = json!({"notification": {"title": "x"}, "recipients": ["ada"]});
    let cases = [
        (service.by(&shop, SEND).json(&old), 202, true),
        (service.by(&shop, SEND).json(&plain_send(&["ada"])), 202, false),
        (list(&shop), 200, false),
        // The app `shop` requires no signature, so the header is ignored and the call is not deprecated.
        (list(&shop).header("X-SERVICE-USER-SIGNATURE", "null"), 200, false),
        (list(&signing).header("X-SERVICE-USER-SIGNATURE", "null"), 401, true),
        (list(&signing), 401, false),
    ];
    for (call, status, deprecated) in cases {
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{answer:?}");
        let expected =
            deprecated.then_some(("@1735689600", "</docs>; rel=\"deprecation\"; type=\"text/html\""));
        assert_eq!(answer.header("deprecation").zip(answer.header("link")), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn no_more_than_a_hundred_problems_are_listed() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let send =
        |wrong: usize| json!({"notification": {"title": "x"}, "sendTo": {"recipients": vec![7; wrong]}});
    for (wrong, last) in
        [(100, "sendTo.recipients[99] must be"), (101, "2 further problems"), (9_000, "8901 further")]
    {
        let answer = service.by(&shop, SEND).json(&send(wrong)).send().await.is(400);
        let (messages, errors) =
            (answer["message"].as_array().unwrap(), answer["errors"].as_array().unwrap());
        assert_eq!((messages.len(), errors.len()), (100, 100));
        assert!(messages[99].as_str().unwrap().starts_with(last), "{}", messages[99]);
        assert_eq!(errors[99]["message"], messages[99]);
    }
}

#[tokio::test]
async fn strict_handling_knows_every_parameter() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let strict = |call: &str| service.by(&shop, call).header("Prefer", "handling=strict");
    let unknown = "unknown_parameter";
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("GET /v3/notifications?userIdentifier=ada&limit=3&pageNo=1&category=&filter=", &[]),
        ("GET /v3/notifications?userIdentifier=ada&page=1&&l%69mit=3", &[("page", unknown)]),
        (
            "GET /v3/notifications?userIdentifier=ada&limit=0&x",
            &[("limit", "invalid_number"), ("x", unknown)],
        ),
        ("GET /v3/notifications/7?seen=false", &[("seen", unknown)]),
        ("POST /v3/notifications?dryrun=true", &[("dryrun", unknown)]),
        ("GET /v3/requests/7/deliveries?statuses=sent", &[("statuses", unknown)]),
    ];
    for (call, expected) in cases {
        let answer = strict(call).json(&plain_send(&["ada"])).send().await;
        match expected {
            [] => assert_eq!(answer.status, 200, "{answer:?}"),
            expected => answer.has_problems(expected),
        }
    }
    service.by(&shop, "GET /v3/notifications?userIdentifier=ada&page=1").send().await.is(200);
}

#[tokio::test]
async fn a_parameter_in_another_case_is_refused_because_it_would_have_no_effect() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    for (call, field, meant) in [
        ("POST /v3/notifications?dryrun=true", "dryrun", "dryRun"),
        ("GET /v3/users?Limit=1&x=1", "Limit", "limit"),
        ("GET /v3/notifications?userIdentifier=ada&Filter=unread", "Filter", "filter"),
        ("DELETE /v3/users/ada?USERIDENTIFIER=x", "USERIDENTIFIER", "userIdentifier"),
    ] {
        let answer = service.by(&shop, call).json(&plain_send(&["ada"])).send().await;
        answer.has_problems(&[(field, "unknown_parameter")]);
        let message = format!("{field} is not a parameter of this call; did you mean {meant}?");
        assert_eq!(answer.body["errors"][0]["message"], message, "{call}");
    }
    assert_eq!(service.rows("SELECT send_id::text FROM request").await, [""; 0]);
}

#[tokio::test]
async fn an_unknown_parameter_is_named_with_the_one_that_was_meant() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let get = async |query: &str| service.by(&shop, &format!("GET /v3/users?{query}")).send().await;
    let misspelt = get("limt=1&%22x%22=1").await;
    assert_eq!(misspelt.status, 200, "{}", misspelt.body);
    let warnings: Vec<_> =
        misspelt.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(warnings[0], "299 - \"limt is not a parameter of this call; did you mean limit?\"");
    assert!(
        warnings[1].starts_with("299 - \"%22x%22 is not a parameter of this call, which has "),
        "{warnings:?}"
    );
    assert_eq!(get("limit=1&userIdentifier=ada").await.header("warning"), None);
    let many = get(&(0..50).map(|index| format!("x{index}=1")).collect::<Vec<_>>().join("&")).await;
    assert_eq!(many.headers.get_all("warning").iter().count(), 5);
    let many =
        format!("GET /v3/profile?{}", (0..150).map(|index| format!("x{index}=1&")).collect::<String>());
    let strict = service.of(&shop, "ada", &many).header("Prefer", "handling=strict").send().await.is(400);
    assert_eq!(strict["errors"].as_array().unwrap().len(), 100);
    assert_eq!(service.call("GET /healthz?x=1").send().await.header("warning"), None);
}

#[tokio::test]
async fn an_unknown_route_is_answered_with_the_nearest_one() {
    let service = Service::start_with(Backing::Nothing).await;
    for (call, nearest) in [
        ("POST /v3/notification", "POST /v3/notifications"),
        ("GET /v3/user/ada", "GET /v3/users/{identifier}"),
        ("GET /v3/request/7/deliveries", "GET /v3/requests/{requestId}/deliveries"),
        ("PUT /v2/profil", "PUT /v3/profile"),
        ("GET /health", "GET /healthz"),
    ] {
        let answer = service.call(call).send().await;
        answer.fails(404, "not_found");
        assert_eq!(answer.body["message"], format!("no such route; did you mean {nearest}?"), "{call}");
    }
    let unlike = service.call("GET /wp-login.php").send().await;
    unlike.fails(404, "not_found");
    assert_eq!(unlike.body["message"], "no such route; GET /docs lists the routes");
}
