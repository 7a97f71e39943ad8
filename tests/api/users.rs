//! `/v3/users`.

use serde_json::{Value, json};

use crate::service::{Behind, Service};

#[tokio::test]
async fn a_user_is_created_once() {
    let service = Service::start_with(Behind::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let body = json!({"identifier": "ada", "profile": {"email": "ada@example.com", "plan": {"tier": 1}}});
    assert_eq!(service.by(&shop, "POST /v3/users").json(&body).send().await.is(200), body);
    service.by(&shop, "POST /v3/users/").json(&body).send().await.fails(409, "user_exists");
    assert_eq!(service.by(&bank, "POST /v3/users").json(&body).send().await.is(200), body);
    let bare = json!({"identifier": "bob", "profile": null});
    let answer = service.by(&shop, "POST /v3/users").json(&bare).send().await.is(200);
    assert_eq!(answer, json!({"identifier": "bob", "profile": {}}));
}

#[tokio::test]
async fn every_problem_of_a_user_is_named() {
    let service = Service::start_with(Behind::Nothing).await;
    let shop = service.app("shop").await;
    let long = "u".repeat(256);
    let large = "x".repeat(64 * 1024);
    let cases: [(Value, &[(&str, &str)]); 8] = [
        (json!({}), &[("identifier", "required")]),
        (json!("ada"), &[("", "invalid_type")]),
        (json!({"identifier": long}), &[("identifier", "too_long")]),
        (json!({"identifier": "a\nb"}), &[("identifier", "invalid_character")]),
        (
            json!({"identifier": 7, "profile": "x"}),
            &[("identifier", "invalid_type"), ("profile", "invalid_type")],
        ),
        (
            json!({"identifier": "a", "profile": {"email": 7, "fcm": "x", "n": "\u{0}"}}),
            &[
                ("profile.n", "invalid_character"),
                ("profile.email", "invalid_type"),
                ("profile.fcm", "invalid_type"),
            ],
        ),
        (json!({"identifier": "a", "profile": {"\u{0}": 1}}), &[("profile", "invalid_character")]),
        (json!({"identifier": "a", "profile": {"x": large}}), &[("profile", "too_long")]),
    ];
    for (body, expected) in cases {
        service.by(&shop, "POST /v3/users").json(&body).send().await.has_problems(expected);
    }
    let renamed = json!({"identifier": "a", "profile": {"identifier": "b"}});
    service.by(&shop, "POST /v3/users").json(&renamed).send().await.fails(422, "reserved_key");
    let strict = service.by(&shop, "POST /v3/users").header("Prefer", "handling=strict");
    strict
        .json(&json!({"identifier": "a", "profil": {}}))
        .send()
        .await
        .has_problems(&[("profil", "unknown_member")]);
}

#[tokio::test]
async fn putting_creates_and_then_merges() {
    let service = Service::start_with(Behind::Nothing).await;
    let shop = service.app("shop").await;
    let put = |body: Value| service.by(&shop, "PUT /v3/users/ada").json(&body).send();
    assert_eq!(put(json!({})).await.is(200), json!({"identifier": "ada", "profile": {}}));
    put(json!({"name": "Ada", "fcm": {"token": "a"}})).await.is(200);
    let merged = put(json!({"name": null, "fcm": {"token": "b"}})).await.is(200);
    assert_eq!(merged["profile"], json!({"name": null, "fcm": {"tokens": ["a", "b"]}}));
    for body in ["", "null", "{}", "[]"] {
        let answer = service.by(&shop, "PUT /v3/users/ada").body(body, "application/json").send().await;
        assert_eq!(answer.is(200)["profile"], merged["profile"], "{body:?}");
    }
    put(json!({"identifier": "eve"})).await.fails(422, "reserved_key");
    put(json!([1])).await.has_problems(&[("", "invalid_type")]);
    put(json!({"\u{0}": 1, "n": [1e300]}))
        .await
        .has_problems(&[("", "invalid_character"), ("n[0]", "unsafe_number")]);
    put(json!({"email": 7})).await.has_problems(&[("email", "invalid_type")]);
}

#[tokio::test]
async fn an_identifier_in_a_path_is_decoded_once() {
    let service = Service::start_with(Behind::Nothing).await;
    let shop = service.app("shop").await;
    let cases = [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("a+b", "a+b"),
        ("a%2Bb%20c", "a+b c"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("%C3%A9", "é"),
        ("a@b.c", "a@b.c"),
        ("a%3Fb%23", "a?b#"),
    ];
    for (path, identifier) in cases {
        let answer =
            service.by(&shop, &format!("PUT /v3/users/{path}")).json(&json!({})).send().await.is(200);
        assert_eq!(answer["identifier"], identifier, "{path}");
    }
    let long = "u".repeat(256);
    for (path, code) in [("%FF", "invalid_character"), ("a%00b", "invalid_character"), (&*long, "too_long")] {
        let answer = service.by(&shop, &format!("PUT /v3/users/{path}/")).json(&json!({})).send().await;
        answer.has_problems(&[("identifier", code)]);
    }
    let longest = "u".repeat(255);
    service.by(&shop, &format!("PUT /v3/users/{longest}")).json(&json!({})).send().await.is(200);
}
