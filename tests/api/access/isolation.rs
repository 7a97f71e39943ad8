//! Isolation: resources of another app or user look as if they did not exist.

use serde_json::{Value, json};

use crate::service::{App, Backing, SOON, Service, plain_send};

#[tokio::test]
async fn every_foreign_id_is_a_404_and_changes_nothing() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    for app in [&shop, &bank] {
        for user in ["ada", "bob"] {
            service.by(app, "POST /v3/users").json(&json!({"identifier": user})).send().await.is(200);
        }
    }
    let receipt =
        service.by(&shop, "POST /v3/notifications").json(&plain_send(&["ada"])).send().await.is(202);
    let request = receipt["requestId"].as_str().unwrap();
    let list = testkit::eventually(SOON, "the notification is listed", async || {
        let list = service.list(&shop, "ada", "").await;
        (list["unreadCount"] == 1).then_some(list)
    })
    .await;
    let id = list["data"][0]["id"].as_i64().unwrap();
    let calls = [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/click"),
        ("PATCH", "/click"),
        ("PUT", "/reads"),
        ("POST", "/reads"),
        ("DELETE", "/reads"),
        ("PUT", "/views"),
        ("POST", "/views"),
        ("DELETE", "/views"),
        ("PUT", "/state"),
    ];
    let body = json!({"state": "theirs"});
    for (method, path) in calls {
        let call = format!("{method} /v3/notifications/{id}{path}");
        let calls = [
            service.of(&bank, "ada", &call),
            service.of(&shop, "bob", &call),
            service.of(&shop, "nobody", &call),
            service.by(&bank, &call),
            service.by(&bank, &call).header("X-SERVICE-USER-ID", "ada"),
            service.by(&shop, &call).header("X-SERVICE-USER-ID", "bob"),
        ];
        for call in calls {
            call.json(&body).send().await.fails(404, "not_found");
        }
    }
    for name in ["Seen", "Read", "Deleted"] {
        let call = format!("POST /v3/notifications/markAllNotificationsAs{name}");
        for (app, user) in [(&bank, "ada"), (&shop, "bob"), (&shop, "nobody")] {
            assert_eq!(service.of(app, user, &call).send().await.is(200)["updated"], 0);
        }
    }
    for path in ["", "/deliveries"] {
        service.by(&bank, &format!("GET /v3/requests/{request}{path}")).send().await.fails(404, "not_found");
        service.by(&shop, &format!("GET /v3/requests/{request}{path}")).send().await.is(200);
    }
    explains_only_to_its_app(&service, &shop, &bank, request).await;
    assert_eq!(service.by(&bank, "GET /v3/requests").send().await.is(200)["data"], json!([]));
    assert_eq!(service.list(&shop, "ada", "").await, list);
    assert_eq!(service.list(&bank, "ada", "").await["pagination"]["totalCount"], 0);
    assert_eq!(service.list(&shop, "bob", "").await["pagination"]["totalCount"], 0);
}

async fn explains_only_to_its_app(service: &Service, shop: &App, bank: &App, request: &str) {
    let explained = format!("GET /v3/explain?user=ada&request={request}");
    // The id is so young that a gateway cannot tell it from one that is still to be planned.
    let unknown = service.by(bank, &explained).send().await.is(200);
    assert_eq!((&unknown["request"], &unknown["channels"]), (&Value::Null, &json!([])));
    assert!(service.by(shop, &explained).send().await.is(200)["request"].is_object());
}

#[tokio::test]
async fn topics_of_another_app_are_unknown() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    for app in [&shop, &bank] {
        service.by(app, "POST /v3/users").json(&json!({"identifier": "ada"})).send().await.is(200);
    }
    let topic = json!({"add": ["ada"]});
    service.by(&shop, "POST /v3/topics/news/subscriptions").json(&topic).send().await.is(200);
    for call in [
        "GET /v3/topics/news",
        "DELETE /v3/topics/news",
        "GET /v3/topics/news/subscriptions",
        "POST /v3/topics/news/subscriptions",
    ] {
        let body = json!({"remove": ["ada"]});
        service.by(&bank, call).json(&body).send().await.fails(404, "not_found");
    }
    // Another app's topic is unknown by its id too.
    let id = service.by(&shop, "GET /v3/topics/news").send().await.is(200)["id"].clone();
    for topic in ["news", &id.to_string()] {
        for (call, body) in [
            ("PATCH {topic}", json!({"name": "News"})),
            ("DELETE {topic}", Value::Null),
            ("GET {topic}", Value::Null),
            ("POST {topic}/users", json!({"users": [{"identifier": "ada", "channels": ["email"]}]})),
            ("POST {topic}/detachUsers", json!({"users": ["ada"]})),
            ("PUT {topic}/users/ada", json!({"channels": ["email"]})),
        ] {
            let call = service.by(&bank, &call.replace("{topic}", &format!("/v3/topics/{topic}")));
            call.json(&body).send().await.fails(404, "not_found");
        }
        for method in ["GET", "PUT"] {
            let call = format!("{method} /v3/topics/{topic}/subscription");
            service.of(&bank, "ada", &call).send().await.fails(404, "not_found");
        }
    }
    let of_ada = |app| service.by(app, "GET /v3/topics/subscriptions/ada").send();
    assert_eq!(of_ada(&bank).await.is(200), json!([]));
    let own = of_ada(&shop).await.is(200);
    assert_eq!((own[0]["topic"]["id"].clone(), own[0]["channels"].as_array().unwrap().len()), (id, 5));
    // Every user may leave every topic, so a user cannot find out which topics exist.
    service.of(&bank, "ada", "DELETE /v3/topics/news/subscription").send().await.is(200);
    assert_eq!(service.by(&bank, "GET /v3/users/ada/topics").send().await.is(200), json!([]));
    let subscribers = service.by(&shop, "GET /v3/topics/news/subscriptions").send().await.is(200);
    assert_eq!(subscribers[0]["identifier"], "ada");
}
