//! The `state` of a notification, a text that the app chooses.

use serde_json::{Value, json};

use crate::service::{Service, titles};

#[tokio::test]
async fn a_state_is_set_listed_and_removed() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 2).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].as_i64().unwrap();
    let path = format!("PUT /v3/notifications/{id}/state");
    let longest = "é".repeat(32);
    for state in ["archived", &longest, " "] {
        let body = json!({"state": state});
        let changed = service.shown(|| service.of(&shop, "ada", &path).json(&body)).await;
        assert_eq!(changed["state"], state);
        assert_eq!((&changed["seenAt"], &changed["clickedAt"]), (&Value::Null, &Value::Null));
        let list = service.list(&shop, "ada", "filter=interacted").await;
        assert_eq!((titles(&list), &list["data"][0]), (vec!["2"], &changed));
        assert_eq!((&list["pagination"]["totalCount"], &list["unreadCount"]), (&json!(1), &json!(2)));
    }
    let done = json!({"state": "done", "note": 1});
    assert_eq!(service.shown(|| service.by(&shop, &path).json(&done)).await["state"], "done");
    let none = json!({"state": null});
    let changed = service.shown(|| service.of(&shop, "ada", &path).json(&none)).await;
    assert_eq!(changed["state"], Value::Null);
    assert!(titles(&service.list(&shop, "ada", "filter=interacted").await).is_empty());
}

#[tokio::test]
async fn every_problem_of_a_state_is_named() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let id = service.list(&shop, "ada", "").await["data"][0]["id"].as_i64().unwrap();
    let path = format!("PUT /v3/notifications/{id}/state");
    let cases = [
        (json!({}), ("state", "required")),
        (json!([]), ("state", "required")),
        (json!({"state": ""}), ("state", "empty")),
        (json!({"state": "x".repeat(65)}), ("state", "too_long")),
        (json!({"state": "é".repeat(33)}), ("state", "too_long")),
        (json!({"state": "a\u{7}"}), ("state", "invalid_character")),
        (json!({"state": 1}), ("state", "invalid_type")),
        (json!("done"), ("", "invalid_type")),
    ];
    for (body, problem) in cases {
        service.of(&shop, "ada", &path).json(&body).send().await.has_problems(&[problem]);
    }
    let strict = service.of(&shop, "ada", &path).header("Prefer", "handling=strict");
    let answer = strict.json(&json!({"state": "", "note": 1})).send().await;
    answer.has_problems(&[("note", "unknown_member"), ("state", "empty")]);
    service
        .of(&shop, "ada", &path)
        .body("done", "text/plain")
        .send()
        .await
        .fails(415, "unsupported_media_type");
    assert_eq!(service.list(&shop, "ada", "").await["data"][0]["state"], Value::Null);
}
