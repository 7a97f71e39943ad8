//! `POST /v3/users/bulk`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::repeated;
use crate::service::{Backing, Service};

const CALL: &str = "POST /v3/users/bulk";

/// Returns identifier and status of every item, in order.
fn statuses(answer: &Value) -> Vec<(&str, &str)> {
    let items = answer["data"].as_array().unwrap().iter();
    items.map(|item| (item["identifier"].as_str().unwrap_or("-"), item["status"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn bulk_results_are_in_the_order_of_the_users() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let there = json!({"name": "Ada", "fcm": {"token": "a"}, "kept": true});
    service.by(&shop, "PUT /v3/users/ada").json(&there).send().await.is(200);
    let users = json!([
        {"identifier": "zoe", "profile": {"n": 1}},
        {"identifier": "ada", "profile": {"name": "Countess", "fcm": {"token": "b"}}},
        {"identifier": "bob"},
        {"identifier": "zoe", "profile": {"n": 2, "fcm": {"token": "z"}}},
        {"identifier": "zoe", "profile": {"fcm": {"token": "y"}}},
        {"identifier": "nil", "profile": null},
    ]);
    let answer = service.by(&shop, CALL).json(&json!({"users": users})).send().await.is(200);
    let expected = [
        ("zoe", "created"),
        ("ada", "updated"),
        ("bob", "created"),
        ("zoe", "updated"),
        ("zoe", "updated"),
        ("nil", "created"),
    ];
    assert_eq!(statuses(&answer), expected);
    assert!(answer["data"].as_array().unwrap().iter().all(|item| item["errors"] == json!([])), "{answer}");
    let profiles = [
        ("ada", json!({"name": "Countess", "fcm": {"tokens": ["a", "b"]}, "kept": true})),
        ("bob", json!({})),
        ("zoe", json!({"n": 2, "fcm": {"tokens": ["z", "y"]}})),
    ];
    for (user, profile) in profiles {
        let read = service.by(&shop, &format!("GET /v3/users/{user}")).send().await.is(200);
        assert_eq!(read["profile"], profile, "{user}");
        service.by(&bank, &format!("GET /v3/users/{user}")).send().await.fails(404, "not_found");
    }
    let again = service.by(&shop, CALL).json(&users).send().await.is(200);
    assert!(
        statuses(&again).iter().all(|(_, status)| *status == "updated"),
        "an array without an object is accepted: {again}"
    );
    assert_eq!(service.by(&shop, CALL).json(&json!([])).send().await.is(200), json!({"data": []}));
}

#[tokio::test]
async fn an_invalid_user_does_not_affect_the_others() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let half = "x".repeat(40 * 1024);
    service.by(&shop, "PUT /v3/users/full").json(&json!({"a": half})).send().await.is(200);
    let long = "u".repeat(256);
    let items = [
        (json!("ada"), vec![("users[0]", "invalid_type")]),
        (
            json!({"profile": 7}),
            vec![("users[1].identifier", "required"), ("users[1].profile", "invalid_type")],
        ),
        (json!({"identifier": long}), vec![("users[2].identifier", "too_long")]),
        (
            json!({"identifier": "nul", "profile": {"n": "\u{0}", "email": 7}}),
            vec![("users[3].profile.n", "invalid_character"), ("users[3].profile.email", "invalid_type")],
        ),
        (
            json!({"identifier": "eve", "profile": {"identifier": "x"}}),
            vec![("users[4].profile.identifier", "reserved_key")],
        ),
        (json!({"identifier": "full", "profile": {"b": half}}), vec![("users[5].profile", "too_long")]),
        (
            json!({"identifier": "large", "profile": {"b": "x".repeat(64 * 1024)}}),
            vec![("users[6].profile", "too_long")],
        ),
        (json!({"identifier": "good", "extra": 1}), vec![]),
    ];
    let users: Vec<_> = items.iter().map(|(item, _)| item).collect();
    let answer = service.by(&shop, CALL).json(&json!({"users": users})).send().await.is(200);
    for (index, (item, expected)) in items.iter().enumerate() {
        let answer = &answer["data"][index];
        let errors = answer["errors"].as_array().unwrap().iter();
        let errors: Vec<_> =
            errors.map(|error| (error["field"].as_str().unwrap(), error["code"].as_str().unwrap())).collect();
        assert_eq!(&errors, expected, "{item}");
        assert_eq!(answer["status"], if expected.is_empty() { "created" } else { "error" }, "{item}");
    }
    assert_eq!(answer["data"][1]["identifier"], Value::Null);
    assert_eq!(answer["data"][4]["identifier"], "eve");
    let listed = service.by(&shop, "GET /v3/users").send().await.is(200);
    let listed: Vec<_> = listed["data"].as_array().unwrap().iter().map(|user| &user["identifier"]).collect();
    assert_eq!(listed, ["full", "good"], "no invalid user was created");
    assert_eq!(service.by(&shop, "GET /v3/users/full").send().await.is(200)["profile"], json!({"a": half}));

    let strict = service
        .by(&shop, CALL)
        .header("Prefer", "handling=strict")
        .json(&json!([{"identifier": "a", "extra": 1}]));
    let strict = strict.send().await.is(200);
    assert_eq!(strict["data"][0]["errors"][0]["field"], "[0].extra", "{strict}");
}

#[tokio::test]
async fn a_body_that_is_not_a_list_of_users_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let many = vec![json!({"identifier": "ada"}); 1001];
    let cases: [(Value, &[(&str, &str)]); 6] = [
        (json!({}), &[("users", "required")]),
        (json!({"users": null}), &[("users", "required")]),
        (json!({"users": {}}), &[("users", "invalid_type")]),
        (json!("ada"), &[("", "invalid_type")]),
        (json!({"users": many}), &[("users", "too_many")]),
        (json!(many), &[("users", "too_many")]),
    ];
    for (body, expected) in cases {
        service.by(&shop, CALL).json(&body).send().await.has_problems(expected);
    }
    let strict =
        service.by(&shop, CALL).header("Prefer", "handling=strict").json(&json!({"users": [], "user": []}));
    strict.send().await.has_problems(&[("user", "unknown_member")]);
    service.by(&shop, CALL).body("", "application/json").send().await.has_problems(&[("", "malformed_json")]);
    service.by(&shop, CALL).body("[]", "text/plain").send().await.fails(415, "unsupported_media_type");
    service.of(&shop, "ada", CALL).json(&json!([])).send().await.fails(401, "secret_required");
    // For other methods, `bulk` in the path is the identifier of a user.
    service.by(&shop, "GET /v3/users/bulk").send().await.fails(404, "not_found");
    let bulk = service.by(&shop, "PUT /v3/users/bulk").json(&json!({"name": "Bulk"})).send().await.is(200);
    assert_eq!(bulk, json!({"identifier": "bulk", "profile": {"name": "Bulk"}}));
}

#[tokio::test]
async fn concurrent_bulk_calls_of_a_thousand_users_succeed() {
    let service = Arc::new(Service::start_with(Backing::Nothing).await);
    let shop = service.app("shop").await;
    let mut writers = JoinSet::new();
    for writer in 0..3 {
        let (service, shop) = (service.clone(), shop.clone());
        writers.spawn(async move {
            // All writers write the same users, each in a different order.
            let identifier = |number: i64| format!("u{}", (number * 7 + writer) % 1000);
            let user =
                |number| json!({"identifier": identifier(number), "profile": {format!("w{writer}"): 1}});
            let users: Vec<_> = (0..1000).map(user).collect();
            let answer = repeated(|| service.by(&shop, CALL).json(&json!(users))).await.is(200);
            let expected: Vec<_> = (0..1000).map(identifier).collect();
            let statuses = statuses(&answer);
            assert!(statuses.iter().map(|(identifier, _)| *identifier).eq(expected), "{answer}");
            assert!(statuses.iter().all(|(_, status)| ["created", "updated"].contains(status)), "{answer}");
            statuses.iter().filter(|(_, status)| *status == "created").count()
        });
    }
    let created: usize = writers.join_all().await.into_iter().sum();
    assert!(created <= 1000, "{created} of 1000 users were created");
    for user in ["u0", "u500", "u999"] {
        let read = service.by(&shop, &format!("GET /v3/users/{user}")).send().await.is(200);
        assert_eq!(read["profile"], json!({"w0": 1, "w1": 1, "w2": 1}));
    }
}
