//! `PATCH /v3/profile`: JSON Patch (RFC 6902).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Answer;
use crate::service::{App, Backing, Service};

const CALL: &str = "PATCH /v3/profile";
const WRITERS: u64 = 32;
const PUBLIC_CASES: [&str; 2] = [
    include_str!("../../../libs/domain/tests/json-patch/tests.json"),
    include_str!("../../../libs/domain/tests/json-patch/spec_tests.json"),
];

async fn patch(service: &Service, app: &App, patch: Value) -> Answer {
    service.of(app, "ada", CALL).json(&patch).send().await
}

async fn profile(service: &Service, app: &App) -> Value {
    service.of(app, "ada", "GET /v3/profile").send().await.is(200)
}

#[tokio::test]
async fn the_public_test_cases_pass_for_profiles() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let cases = PUBLIC_CASES.iter().flat_map(|cases| serde_json::from_str::<Vec<Value>>(cases).unwrap());
    let cases = cases.filter(|case| case["doc"].is_object() && case["comment"] != "duplicate ops");
    let mut ran = 0;
    for case in cases {
        let user = format!("user {ran}");
        let before = &case["doc"];
        service.of(&shop, &user, "PUT /v3/profile").json(before).send().await.is(200);
        let media = ["application/json", "application/json-patch+json"][ran % 2];
        let body = case["patch"].to_string();
        let answer = service.of(&shop, &user, CALL).body(body, media).send().await;
        let expected = case.get("expected").unwrap_or(before);
        let after = match answer.status {
            200 => {
                assert!(case.get("error").is_none(), "{case}: {}", answer.body);
                assert_eq!(&answer.body, expected, "{case}");
                expected
            }
            _ => {
                assert!(case.get("error").is_some() || !expected.is_object(), "{case}: {}", answer.body);
                assert!([400, 422].contains(&answer.status), "{case}: {}", answer.body);
                before
            }
        };
        let read = service.of(&shop, &user, "GET /v3/profile").send().await.is(200);
        assert_eq!(&read, after, "{case}");
        ran += 1;
    }
    assert_eq!(ran, 64, "some public cases did not run");
}

#[tokio::test]
async fn a_patch_is_applied_as_a_whole_or_not_at_all() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let start = json!({"name": "Ada", "list": ["a"], "n": 1.0});
    let replaced = patch(&service, &shop, json!([{"op": "add", "path": "", "value": start}])).await;
    assert_eq!(replaced.is(200), start, "a patch creates the user");
    let good = json!({"op": "add", "path": "/new", "value": 1});
    let refused = [
        (json!({"op": "test", "path": "/name", "value": "Eve"}), "test_failed"),
        (json!({"op": "test", "path": "/absent", "value": null}), "not_applicable"),
        (json!({"op": "remove", "path": "/absent"}), "not_applicable"),
        (json!({"op": "replace", "path": "/list/1", "value": 1}), "not_applicable"),
        (json!({"op": "add", "path": "/list/2", "value": 1}), "not_applicable"),
        (json!({"op": "move", "from": "/absent", "path": "/x"}), "not_applicable"),
        (json!({"op": "move", "from": "/list", "path": "/list/0"}), "not_applicable"),
        (json!({"op": "remove", "path": ""}), "not_applicable"),
        (json!({"op": "replace", "path": "", "value": ["no", "object"]}), "not_an_object"),
        (json!({"op": "replace", "path": "", "value": null}), "not_an_object"),
        (json!({"op": "add", "path": "/identifier", "value": "eve"}), "reserved_key"),
        (json!({"op": "copy", "from": "/name", "path": "/identifier"}), "reserved_key"),
        (json!({"op": "move", "from": "/name", "path": "/identifier"}), "reserved_key"),
        (json!({"op": "replace", "path": "", "value": {"identifier": "eve"}}), "reserved_key"),
    ];
    for (operation, code) in refused {
        let answer = patch(&service, &shop, json!([good, operation])).await;
        answer.fails(422, code);
        if ["test_failed", "not_applicable"].contains(&code) {
            assert!(answer.body["message"].as_str().unwrap().starts_with("[1] "), "{}", answer.body);
        }
    }
    assert_eq!(profile(&service, &shop).await, start);
    let equal = patch(&service, &shop, json!([{"op": "test", "path": "/n", "value": 1}])).await;
    assert_eq!(equal.is(200), start, "1 and 1.0 are the same number");
}

#[tokio::test]
async fn every_problem_of_a_patch_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let deep = (0..33).fold(json!(1), |value, _| json!({"a": value}));
    let cases: [(Value, &[(&str, &str)]); 9] = [
        (json!([1, "x", null]), &[("[0]", "invalid_type"), ("[1]", "invalid_type"), ("[2]", "invalid_type")]),
        (
            json!([{"op": "add", "path": "/a"}, {"path": "a"}, {"op": "spam", "path": "/a"}]),
            &[
                ("[0].value", "required"),
                ("[1].op", "required"),
                ("[1].path", "invalid_pointer"),
                ("[2].op", "unknown_value"),
            ],
        ),
        (json!([{"op": "copy", "path": "/a"}]), &[("[0].from", "required")]),
        (json!([{"op": "add", "path": "/a\u{0}", "value": 1}]), &[("[0].path", "invalid_character")]),
        (json!([{"op": "add", "path": "/a", "value": [1e300]}]), &[("[0].value[0]", "unsafe_number")]),
        (json!([{"op": "add", "path": "/email", "value": 7}]), &[("email", "invalid_type")]),
        (json!([{"op": "add", "path": "/phone", "value": "+1\r\n2"}]), &[("phone", "invalid_character")]),
        (json!([{"op": "add", "path": "/fcm", "value": {"tokens": [7]}}]), &[("fcm.tokens", "invalid_type")]),
        (Value::Array(vec![json!({"op": "remove", "path": "/a"}); 101]), &[("", "too_many")]),
    ];
    for (operations, expected) in cases {
        patch(&service, &shop, operations).await.has_problems(expected);
    }
    let deep = patch(&service, &shop, json!([{"op": "add", "path": "/deep", "value": deep}])).await;
    assert_eq!((deep.status, &deep.body["errors"][0]["code"]), (400, &json!("too_deep")));
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let bomb: Vec<_> = std::iter::once(json!({"op": "add", "path": "/a", "value": ["x".repeat(1000)]}))
        .chain(vec![double; 99])
        .collect();
    patch(&service, &shop, json!(bomb)).await.has_problems(&[("profile", "too_long")]);

    let unknown = json!([{"op": "add", "path": "/a", "value": 1, "comment": "x"}]);
    let strict =
        service.of(&shop, "ada", CALL).header("Prefer", "handling=strict").json(&unknown).send().await;
    strict.has_problems(&[("[0].comment", "unknown_member")]);
    assert_eq!(
        service.context.store.directory().find_user(shop.id, "ada").await.unwrap(),
        None,
        "no user was created"
    );
    assert_eq!(patch(&service, &shop, unknown).await.is(200), json!({"a": 1}));

    for (body, field) in
        [("{}", "invalid_type"), ("null", "invalid_type"), ("", "malformed_json"), ("[", "malformed_json")]
    {
        let answer = service.of(&shop, "ada", CALL).body(body, "application/json-patch+json").send().await;
        answer.has_problems(&[("", field)]);
    }
    let media =
        service.of(&shop, "ada", CALL).body("[]", "application/json-patch+json; charset=utf-8").send().await;
    media.is(200);
}

#[tokio::test]
async fn a_patch_whose_work_exceeds_the_budget_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let by_app =
        |patch: &Value| service.by(&shop, CALL).header("X-SERVICE-USER-ID", "ada").json(patch).send();
    let large = json!({"large": "x".repeat(60_000), "small": 0});
    let replace = json!([{"op": "add", "path": "", "value": large}]);
    by_app(&replace).await.is(200);
    let small = json!({"op": "replace", "path": "/small", "value": 1});
    let hundred = json!(vec![small.clone(); 100]);
    for answer in [patch(&service, &shop, hundred.clone()).await, by_app(&hundred).await] {
        answer.has_problems(&[("", "too_much_work")]);
    }
    by_app(&json!(vec![small.clone(); 1_001])).await.has_problems(&[("", "too_many")]);
    assert_eq!(profile(&service, &shop).await, large, "nothing is changed");
    patch(&service, &shop, json!(vec![small.clone(); 10])).await.is(200);

    by_app(&json!([{"op": "replace", "path": "/large", "value": ""}])).await.is(200);
    by_app(&json!(vec![small.clone(); 1_000])).await.is(200);
    patch(&service, &shop, hundred).await.is(200);
    patch(&service, &shop, json!(vec![small; 101])).await.has_problems(&[("", "too_many")]);
}

/// Runs patches, merges, bulk merges and sends with profiles concurrently, over two gateways and a dispatcher.
#[tokio::test]
async fn concurrent_writers_of_every_kind_lose_no_update() {
    let service = Arc::new(Service::start().await);
    let shop = service.app("shop").await;
    service.of(&shop, "ada", "PUT /v3/profile").json(&json!({"list": []})).send().await.is(200);
    let (other, context) = service.another_gateway().await;
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (service, shop) = (service.clone(), shop.clone());
        writers.spawn(async move {
            let pairs = json!({(format!("key{number}")): number});
            let address = if number % 8 < 4 { service.address } else { other };
            let ada = |what| {
                let call = service.call_at(address, what).header("X-SERVICE-API-KEY", &shop.key);
                call.header("X-SERVICE-USER-ID", "ada")
            };
            let answer = match number % 4 {
                0 => {
                    let append = json!([{"op": "add", "path": "/list/-", "value": number}]);
                    ada(CALL).json(&append).send().await
                }
                1 => ada("PUT /v3/profile").json(&pairs).send().await,
                2 => {
                    let users = json!([{"identifier": "ada", "profile": pairs}]);
                    service.by(&shop, "POST /v3/users/bulk").json(&users).send().await
                }
                _ => {
                    let mut ada = pairs;
                    ada["identifier"] = json!("ada");
                    let send = json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": [ada]}});
                    service.by(&shop, "POST /v3/notifications").json(&send).send().await
                }
            };
            (number, answer.status)
        });
    }
    let mut statuses = writers.join_all().await;
    statuses.sort_unstable();
    assert!(statuses.iter().all(|(_, status)| [200, 202, 503].contains(status)), "{statuses:?}");
    let confirmed = || statuses.iter().filter(|(_, status)| *status < 300).map(|(number, _)| *number);
    assert!(confirmed().count() > 4, "{statuses:?}");
    testkit::eventually(crate::service::SOON, "every confirmed write is stored", async || {
        let after = profile(&service, &shop).await;
        let is_there = |number: u64| match number % 4 {
            0 => after["list"].as_array().unwrap().contains(&json!(number)),
            _ => after[format!("key{number}")] == json!(number),
        };
        confirmed().all(is_there).then_some(())
    })
    .await;
    context.tasks.stop();
}

/// On a busy machine the gateway may answer some writes with 503. The test does not check whether such a write was applied.
#[tokio::test]
async fn concurrent_writers_lose_no_update() {
    let service = Arc::new(Service::start_with(Backing::Nothing).await);
    let shop = service.app("shop").await;
    let start = json!({"list": [], "count": 0, "other": "kept"});
    service.of(&shop, "ada", "PUT /v3/profile").json(&start).send().await.is(200);
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (service, shop) = (service.clone(), shop.clone());
        writers.spawn(async move {
            let append = json!([{"op": "add", "path": "/list/-", "value": number}]);
            (number, patch(&service, &shop, append).await.status)
        });
    }
    let statuses = writers.join_all().await;
    assert!(statuses.iter().all(|(_, status)| [200, 503].contains(status)), "{statuses:?}");
    let confirmed: BTreeSet<u64> =
        statuses.iter().filter(|(_, status)| *status == 200).map(|(number, _)| *number).collect();
    let after = profile(&service, &shop).await;
    let list = after["list"].as_array().unwrap();
    let appended: BTreeSet<u64> = list.iter().map(|item| item.as_u64().unwrap()).collect();
    assert_eq!(appended.len(), list.len(), "nothing is appended twice");
    assert!(confirmed.len() > 1 && appended.is_superset(&confirmed), "{confirmed:?} of {appended:?}");
}

#[tokio::test]
async fn patches_with_a_test_never_overwrite_each_other() {
    let service = Arc::new(Service::start_with(Backing::Nothing).await);
    let shop = service.app("shop").await;
    service.of(&shop, "ada", "PUT /v3/profile").json(&json!({"count": 0})).send().await.is(200);
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (service, shop) = (service.clone(), shop.clone());
        writers.spawn(async move {
            // Number of writes that were answered with 503, and may or may not have raised the count.
            let mut unknown = 0;
            loop {
                let read = service.of(&shop, "ada", "GET /v3/profile").send().await;
                let Some(count) = read.body["count"].as_u64() else {
                    read.fails(503, "unavailable");
                    continue;
                };
                let raise = json!([
                    {"op": "test", "path": "/count", "value": count},
                    {"op": "replace", "path": "/count", "value": count + 1},
                ]);
                match patch(&service, &shop, raise).await.status {
                    200 => return unknown,
                    503 => unknown += 1,
                    status => assert_eq!(status, 422, "a patch fails only because another write was faster"),
                }
            }
        });
    }
    let unknown: u64 = writers.join_all().await.into_iter().sum();
    let count = profile(&service, &shop).await["count"].as_u64().unwrap();
    assert!((WRITERS..=WRITERS + unknown).contains(&count), "{count} after {WRITERS} writers");
}

#[tokio::test]
async fn push_tokens_are_removed_and_added_by_patches() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .of(&shop, "ada", "PUT /v3/profile")
        .json(&json!({"fcm": {"tokens": ["a", "b"]}}))
        .send()
        .await
        .is(200);
    let gone = patch(
        &service,
        &shop,
        json!([
            {"op": "test", "path": "/fcm/tokens/0", "value": "a"},
            {"op": "remove", "path": "/fcm/tokens/0"},
        ]),
    );
    assert_eq!(gone.await.is(200), json!({"fcm": {"tokens": ["b"]}}));
    let token = patch(&service, &shop, json!([{"op": "add", "path": "/fcm/token", "value": "c"}]));
    assert_eq!(token.await.is(200), json!({"fcm": {"tokens": ["b", "c"]}}));
    let none = patch(&service, &shop, json!([{"op": "remove", "path": "/fcm"}]));
    assert_eq!(none.await.is(200), json!({}));
}
