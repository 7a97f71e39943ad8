//! `/v3/categories`.

use serde_json::{Value, json};

use crate::service::{Behind, Service};

#[tokio::test]
async fn categories_are_created_and_listed() {
    let service = Service::start_with(Behind::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let orders = json!({"identifier": "orders", "name": "Orders"});
    let created = service.by(&shop, "POST /v3/categories").json(&orders).send().await.is(200);
    let members: Vec<_> = created.as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["createdAt", "hideInInApp", "hideInPreferenceManager", "id", "identifier", "name", "updatedAt"];
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
    public.fails(401, "no_credentials");
}

#[tokio::test]
async fn every_problem_of_a_category_is_named() {
    let service = Service::start_with(Behind::Nothing).await;
    let shop = service.app("shop").await;
    let cases: [(Value, &[(&str, &str)]); 4] = [
        (json!({}), &[("identifier", "required"), ("name", "required")]),
        (json!({"identifier": "", "name": ""}), &[("identifier", "empty"), ("name", "required")]),
        (json!({"identifier": "a", "name": 7}), &[("name", "invalid_type")]),
        (json!({"identifier": "a", "name": "x\u{0}"}), &[("name", "invalid_character")]),
    ];
    for (body, expected) in cases {
        service.by(&shop, "POST /v3/categories").json(&body).send().await.has_problems(expected);
    }
}
