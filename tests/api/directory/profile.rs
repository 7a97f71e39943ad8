//! `/v3/profile`: reading and merging.

use domain::Actor;
use std::sync::Arc;

use domain::app_setting::AppSetting;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::repeated;
use crate::service::{Backing, Service};

const CALL: &str = "PUT /v3/profile";

#[tokio::test]
async fn a_profile_is_written_by_its_user_and_hidden_from_others() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let get = |app, user| service.of(app, user, "GET /v3/profile").send();
    assert_eq!(get(&shop, "ada").await.is(200), json!({}), "an unknown user has an empty profile");
    assert_eq!(
        service.context.store.directory().find_user(shop.id, "ada").await.unwrap(),
        None,
        "reading creates nothing"
    );

    let ada = json!({"name": "Ada", "email": "ada@example.com", "plan": {"tier": 1}, "gone": null});
    assert_eq!(service.of(&shop, "ada", CALL).json(&ada).send().await.is(200), ada);
    assert_eq!(get(&shop, "ada").await.is(200), ada);
    assert_eq!(service.of(&shop, "ada", "GET /v3/profile/").send().await.is(200), ada);
    let by_app = service.by(&shop, "GET /v3/profile?userIdentifier=ada").send().await;
    assert_eq!(by_app.is(200), ada);
    for (app, user) in [(&shop, "bob"), (&shop, "Ada"), (&bank, "ada")] {
        assert_eq!(get(app, user).await.is(200), json!({}), "{user}");
    }
    service.by(&shop, "GET /v3/profile").send().await.fails(401, "user_required");
    service.of(&shop, "ada", "POST /v3/profile").json(&ada).send().await.fails(405, "method_not_allowed");
}

#[tokio::test]
async fn merging_replaces_values_and_appends_push_tokens() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let steps = [
        (json!({"plan": {"x": 1}, "n": null}), json!({"plan": {"x": 1}, "n": null})),
        (json!({"plan": {"y": 2}}), json!({"plan": {"y": 2}, "n": null})),
        (json!({"fcm": {"token": "a"}}), json!({"plan": {"y": 2}, "n": null, "fcm": {"tokens": ["a"]}})),
        (
            json!({"n": 1, "fcm": {"token": "b", "tokens": ["c", "a"]}, "apns": {"token": "d"}}),
            json!({"plan": {"y": 2}, "n": 1, "fcm": {"tokens": ["a", "c", "b"]}, "apns": {"tokens": ["d"]}}),
        ),
        (
            json!({"fcm": {"token": null, "tokens": null}, "apns": null}),
            json!({"plan": {"y": 2}, "n": 1, "fcm": {"tokens": ["a", "c", "b"]}, "apns": null}),
        ),
    ];
    let mut last = json!({});
    for (pairs, expected) in steps {
        last = service.of(&shop, "ada", CALL).json(&pairs).send().await.is(200);
        assert_eq!(last, expected, "{pairs}");
    }
    for body in ["", "null", "{}", "[]"] {
        for call in [CALL, "PATCH /v3/profile"] {
            let answer = service.of(&shop, "ada", call).body(body, "application/json").send().await;
            assert_eq!(answer.is(200), last, "{call} {body:?}");
        }
    }
    let object = json!({"name": "Ada"});
    let patched = service.of(&shop, "ada", "PATCH /v3/profile").json(&object).send().await.is(200);
    assert_eq!(
        (&patched["name"], &patched["n"]),
        (&json!("Ada"), &json!(1)),
        "an object is merged as by PUT"
    );

    let created = service.of(&shop, "new", CALL).body("", "application/json").send().await;
    assert_eq!(created.is(200), json!({}));
    assert!(
        service.context.store.directory().find_user(shop.id, "new").await.unwrap().is_some(),
        "writing creates the user"
    );
}

#[tokio::test]
async fn every_problem_of_a_merge_is_named_and_nothing_is_written() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let deep = (0..32).fold(json!(1), |value, _| json!([value]));
    let deep = service.of(&shop, "ada", CALL).json(&json!({"deep": deep})).send().await;
    assert_eq!((deep.status, &deep.body["errors"][0]["code"]), (400, &json!("too_deep")));
    let cases: [(Value, &[(&str, &str)]); 9] = [
        (json!("x"), &[("", "invalid_type")]),
        (json!(7), &[("", "invalid_type")]),
        (
            json!({"email": 7, "phone": [], "fcm": 1, "apns": {"token": 1, "tokens": [1]}}),
            &[
                ("email", "invalid_type"),
                ("phone", "invalid_type"),
                ("fcm", "invalid_type"),
                ("apns.token", "invalid_type"),
                ("apns.tokens", "invalid_type"),
            ],
        ),
        (json!({"email": "a@b.c\r\nBcc: d@e.f"}), &[("email", "invalid_character")]),
        (
            json!({"phoneNumber": "+49\u{1}", "n": 1e300}),
            &[("n", "unsafe_number"), ("phoneNumber", "invalid_character")],
        ),
        (json!({"fcm": {"tokens": ["a", "b\nc"]}}), &[("fcm.tokens[1]", "invalid_character")]),
        (json!({"a": {"b": "\u{0}"}}), &[("a.b", "invalid_character")]),
        (json!({"\u{0}": 1}), &[("", "invalid_character")]),
        (json!({"x": "y".repeat(64 * 1024)}), &[("profile", "too_long")]),
    ];
    for (pairs, expected) in cases {
        for call in [CALL, "PATCH /v3/profile"] {
            let answer = service.of(&shop, "ada", call).json(&pairs).send().await;
            answer.has_problems(expected);
        }
    }
    service.of(&shop, "ada", CALL).json(&json!([1])).send().await.has_problems(&[("", "invalid_type")]);
    for call in [CALL, "PATCH /v3/profile"] {
        let renaming = service.of(&shop, "ada", call).json(&json!({"identifier": "eve"})).send().await;
        renaming.fails(422, "reserved_key");
        let media = service.of(&shop, "ada", call).body("{}", "application/merge-patch+json").send().await;
        media.fails(415, "unsupported_media_type");
    }
    let media = service.of(&shop, "ada", CALL).body("[]", "application/json-patch+json").send().await;
    media.fails(415, "unsupported_media_type");
    assert_eq!(
        service.context.store.directory().find_user(shop.id, "ada").await.unwrap(),
        None,
        "a refused write creates no user"
    );
}

#[tokio::test]
async fn the_size_limit_applies_to_the_merged_profile() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let half = "x".repeat(40 * 1024);
    let first = service.of(&shop, "ada", CALL).json(&json!({"a": half})).send().await.is(200);
    service
        .of(&shop, "ada", CALL)
        .json(&json!({"b": half}))
        .send()
        .await
        .has_problems(&[("profile", "too_long")]);
    let by_app = service.by(&shop, "PUT /v3/users/ada").json(&json!({"b": half})).send().await;
    by_app.has_problems(&[("profile", "too_long")]);
    let copy = json!([{"op": "copy", "from": "/a", "path": "/b"}]);
    let copied = service.of(&shop, "ada", "PATCH /v3/profile").json(&copy).send().await;
    copied.has_problems(&[("profile", "too_long")]);
    assert_eq!(service.of(&shop, "ada", "GET /v3/profile").send().await.is(200), first);
    service.of(&shop, "ada", CALL).json(&json!({"a": 1, "b": half})).send().await.is(200);
}

#[tokio::test]
async fn concurrently_appended_tokens_are_all_kept() {
    const WRITERS: usize = 32;
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let service = Arc::new(service);
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (service, shop) = (service.clone(), shop.clone());
        writers.spawn(async move {
            let pairs = json!({"fcm": {"token": format!("t{number}")}, format!("k{number}"): number});
            repeated(|| service.of(&shop, "ada", CALL).json(&pairs)).await.is(200);
        });
    }
    writers.join_all().await;
    let profile = service.of(&shop, "ada", "GET /v3/profile").send().await.is(200);
    assert_eq!(profile["fcm"]["tokens"].as_array().unwrap().len(), WRITERS);
    assert_eq!(profile.as_object().unwrap().len(), WRITERS + 1);

    for number in WRITERS..60 {
        let pairs = json!({"fcm": {"token": format!("t{number}")}});
        service.of(&shop, "ada", CALL).json(&pairs).send().await.is(200);
    }
    let profile = service.of(&shop, "ada", "GET /v3/profile").send().await.is(200);
    let tokens = profile["fcm"]["tokens"].as_array().unwrap();
    assert_eq!((tokens.len(), &tokens[49]), (50, &json!("t59")), "the oldest tokens are removed");
}

#[tokio::test]
async fn guarded_addresses_can_be_written_only_with_a_proof() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .context
        .store
        .control()
        .set_settings(shop.id, &[AppSetting::GuardAddresses(Some(true))], &Actor::System)
        .await
        .unwrap();
    let mut start = json!({"email": "ada@example.com", "note": "eve@example.com"});
    service.by(&shop, "PUT /v3/users/ada").json(&start).send().await.is(200);
    let refused = [
        ("PUT", json!({"email": "eve@example.com"})),
        ("PUT", json!({"email": "ada@example.com"})),
        ("PATCH", json!([{"op": "test", "path": "/email", "value": "ada@example.com"}])),
        ("PATCH", json!([{"op": "copy", "from": "/email", "path": "/seen"}])),
        ("PUT", json!({"phone": "+15005550006", "name": "Ada"})),
        ("PATCH", json!({"phoneNumber": null})),
        ("PATCH", json!([{"op": "replace", "path": "/email", "value": "eve@example.com"}])),
        ("PATCH", json!([{"op": "copy", "from": "/note", "path": "/email"}])),
        ("PATCH", json!([{"op": "move", "from": "/note", "path": "/phone"}])),
        ("PATCH", json!([{"op": "remove", "path": "/email"}])),
        ("PATCH", json!([{"op": "replace", "path": "", "value": {}}])),
    ];
    for (method, body) in refused {
        let path = format!("{method} /v3/profile");
        service.of(&shop, "ada", &path).json(&body).send().await.fails(403, "address_guarded");
    }
    let by_app = service.by(&shop, "GET /v3/profile").header("X-SERVICE-USER-ID", "ada").send().await;
    assert_eq!(by_app.is(200), start);
    start.as_object_mut().unwrap().remove("email");
    assert_eq!(
        service.of(&shop, "ada", "GET /v3/profile").send().await.is(200),
        start,
        "a caller with the public key alone sees no addresses"
    );
    let email = json!({"email": "countess@example.com"});
    let by_app = service.by(&shop, CALL).header("X-SERVICE-USER-ID", "ada").json(&email).send().await;
    assert_eq!(by_app.is(200)["email"], "countess@example.com");
}
