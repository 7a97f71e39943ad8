//! `/v3/categories`.

use serde_json::{Value, json};

use testkit::eventually;

use crate::service::{Backing, SOON, Service, plain_send};

#[tokio::test]
async fn categories_are_created_and_listed() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let orders = json!({"identifier": "orders", "name": "Orders"});
    let created = service.by(&shop, "POST /v3/categories").json(&orders).send().await.is(200);
    let members: Vec<_> = created.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "createdAt",
        "critical",
        "hideInInApp",
        "hideInPreferenceManager",
        "id",
        "identifier",
        "name",
        "order",
        "updatedAt",
    ];
    assert_eq!(members, expected);
    assert!(created["id"].is_i64() && created["hideInInApp"] == false);
    let time = created["createdAt"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.len() == "2027-01-31T09:00:00.000Z".len(), "{time}");

    service.by(&shop, "POST /v3/categories").json(&orders).send().await.fails(409, "category_exists");
    let alias = service.by(&shop, "POST /v3/notifications/categories");
    let news = alias.json(&json!({"identifier": "news", "name": "News"})).send().await.is(200);
    let all = json!([created, news]);
    assert_eq!(service.by(&shop, "GET /v3/categories").send().await.is(200), all);
    assert_eq!(service.of(&shop, "ada", "GET /v3/categories").send().await.is(200), all);
    assert_eq!(service.by(&bank, "GET /v3/categories").send().await.is(200), json!([]));
    let public = service.call("GET /v3/categories").header("X-SERVICE-API-KEY", &shop.key).send().await;
    public.fails(401, "user_required");
}

#[tokio::test]
async fn every_problem_of_a_category_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let cases: [(Value, &[(&str, &str)]); 8] = [
        (json!({}), &[("identifier", "required"), ("name", "required")]),
        (json!({"identifier": "", "name": ""}), &[("identifier", "empty"), ("name", "required")]),
        (json!({"identifier": "a", "name": 7}), &[("name", "invalid_type")]),
        (
            json!({"identifier": "a", "name": "A", "critical": 1, "hideInInApp": "no", "hideInPreferenceManager": null}),
            &[("critical", "invalid_type"), ("hideInInApp", "invalid_type")],
        ),
        (json!({"identifier": "a", "name": "x\u{0}"}), &[("name", "invalid_character")]),
        (json!({"identifier": "a", "name": "A", "order": -1}), &[("order", "out_of_range")]),
        (json!({"identifier": "a", "name": "A", "order": 10_001}), &[("order", "out_of_range")]),
        (json!({"identifier": "a", "name": "A", "order": "1"}), &[("order", "invalid_type")]),
    ];
    for (body, expected) in cases {
        service.by(&shop, "POST /v3/categories").json(&body).send().await.has_problems(expected);
    }
    let strict = service.by(&shop, "POST /v3/categories").header("Prefer", "handling=strict");
    let body = json!({"identifier": "a", "name": "A", "hide": true});
    strict.json(&body).send().await.has_problems(&[("hide", "unknown_member")]);
}

#[tokio::test]
async fn category_flags_are_returned_to_clients() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = json!({
        "identifier": "orders", "name": "Orders", "critical": true, "hideInInApp": true, "hideInPreferenceManager": true,
        "order": 10_000,
    });
    let created = service.by(&shop, "POST /v3/categories").json(&body).send().await.is(200);
    assert_eq!((&created["hideInInApp"], &created["hideInPreferenceManager"]), (&json!(true), &json!(true)));
    assert_eq!((&created["critical"], &created["order"]), (&json!(true), &json!(10_000)));
    let listed = service.of(&shop, "ada", "GET /v3/categories").send().await.is(200);
    assert_eq!(listed, json!([created]));
}

#[tokio::test]
async fn a_put_names_a_category_that_a_send_has_created_and_keeps_values_that_it_does_not_give() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let mut send = plain_send(&["ada"]);
    send["category"] = json!("orders");
    service.by(&shop, "POST /v3/notifications").json(&send).send().await.is(202);
    let listed = async || service.of(&shop, "ada", "GET /v3/categories").send().await.is(200);
    eventually(SOON, "the send has created its category", async || {
        (listed().await[0]["name"] == "orders").then_some(())
    })
    .await;

    let put =
        async |body: Value| service.by(&shop, "PUT /v3/categories/orders").json(&body).send().await.is(200);
    let named = put(json!({"name": "Your orders", "hideInInApp": true})).await;
    assert_eq!((&named["name"], &named["hideInInApp"]), (&json!("Your orders"), &json!(true)));
    assert_eq!(put(json!({"order": 7})).await["order"], 7);
    let kept = put(json!({"hideInPreferenceManager": true})).await;
    assert_eq!((&kept["name"], &kept["hideInInApp"]), (&json!("Your orders"), &json!(true)));
    assert_eq!(kept["order"], 7);
    assert_eq!((&kept["id"], listed().await), (&named["id"], json!([kept])));

    let path = "PUT /v3/categories/caf%C3%A9%2F7";
    let new = service.by(&shop, path).json(&json!({"critical": true})).send().await.is(200);
    assert_eq!((&new["identifier"], &new["name"]), (&json!("café/7"), &json!("café/7")));
    assert_eq!(service.by(&bank, "GET /v3/categories").send().await.is(200), json!([]));
    service.by(&shop, path).json(&json!({"name": 7})).send().await.has_problems(&[("name", "invalid_type")]);
}

#[tokio::test]
async fn notifications_of_a_deleted_category_stay() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    service.by(&shop, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    let mut send = plain_send(&["ada"]);
    send["category"] = json!("orders");
    let listed = async |count: usize| {
        service.by(&shop, "POST /v3/notifications").json(&send).send().await.is(202);
        eventually(SOON, "the notification is listed", async || {
            let list = service.list(&shop, "ada", "").await;
            (list["data"].as_array().unwrap().len() == count).then_some(list)
        })
        .await
    };
    let first = listed(1).await["data"][0].clone();
    assert_eq!(first["category"]["identifier"], "orders");
    let path = format!("/v3/categories/{}", first["category"]["id"]);
    service.by(&bank, &format!("DELETE {path}")).send().await.fails(404, "not_found");
    service.of(&shop, "ada", &format!("DELETE {path}")).send().await.fails(401, "secret_required");
    let deleted = service.by(&shop, &format!("DELETE {path}")).send().await.is(200);
    assert_eq!(deleted["statusCode"], 200);
    assert!(deleted["message"].is_string());
    service.by(&shop, &format!("DELETE {path}/")).send().await.fails(404, "not_found");
    assert_eq!(service.by(&shop, "GET /v3/categories").send().await.is(200), json!([]));

    let mut kept = first.clone();
    kept["category"] = Value::Null;
    assert_eq!(service.list(&shop, "ada", "").await["data"], json!([kept]));
    let again = listed(2).await;
    assert_eq!(again["data"][0]["category"]["identifier"], "orders");
    assert_ne!(again["data"][0]["category"]["id"], first["category"]["id"]);
    assert_eq!(again["data"][1], kept);

    let alias = format!("DELETE /v3/notifications/categories/{}", again["data"][0]["category"]["id"]);
    service.by(&shop, &alias).send().await.is(200);
    for id in ["orders", "1.5", "99999999999999999999"] {
        for path in ["/v3/categories", "/v3/notifications/categories"] {
            let answer = service.by(&shop, &format!("DELETE {path}/{id}")).send().await;
            answer.has_problems(&[("id", "invalid_number")]);
        }
    }
}
