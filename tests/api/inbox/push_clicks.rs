//! `POST /v3/push/click/{token}`: clicks that service workers report without credentials.

use credentials::link::{self, Link, Purpose};
use domain::{AppId, CategoryId, SendId, UserNumber};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::service::{Service, titles};

impl Service {
    async fn token(&self, app: AppId, user: UserNumber, purpose: Purpose) -> String {
        link::create(&self.context.store, &self.context.master_key, app).await.unwrap();
        self.context.links.sign(&Link { app, user, purpose }).await.unwrap()
    }

    /// Reports a click as a service worker does, without a body and without credentials. Returns when lists show it.
    async fn click(&self, token: &str) -> u16 {
        let call =
            self.call(&format!("POST /v3/push/click/{token}")).header("Origin", "https://shop.example");
        let answer = call.send().await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        self.caught_up().await;
        answer.status
    }
}

#[tokio::test]
async fn a_click_report_marks_the_sends_item_as_read() {
    let service = Service::start().await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let mut sends = Vec::new();
    for title in ["first", "second"] {
        let body =
            json!({"notification": {"title": title}, "sendTo": {"recipients": [{"identifier": "ada"}]}});
        let sent = service.by(&shop, "POST /v3/notifications").json(&body).send().await.is(202);
        sends.push(SendId(sent["requestId"].as_str().unwrap().parse::<Uuid>().unwrap()));
    }
    testkit::eventually(std::time::Duration::from_secs(20), "both items are in the inbox", async || {
        (service.list(&shop, "ada", "").await["data"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let ada = service.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap().number;
    let token = service.token(shop.id, ada, Purpose::Click(sends[0])).await;
    assert_eq!(service.click(&token).await, 204);
    let list = service.list(&shop, "ada", "filter=read").await;
    assert_eq!((titles(&list), &list["unreadCount"]), (vec!["first"], &json!(1)));
    let item = list["data"][0].clone();
    assert!(item["clickedAt"].is_string() && item["seenAt"].is_string(), "{item}");

    // A second report changes nothing, not even the time.
    assert_eq!(service.click(&token).await, 204);
    assert_eq!(service.list(&shop, "ada", "filter=read").await["data"][0], item);
    let foreign = service.token(bank.id, ada, Purpose::Click(sends[1])).await;
    let of_nobody = service.token(shop.id, UserNumber(i64::MAX), Purpose::Click(sends[1])).await;
    for token in [&foreign, &of_nobody] {
        assert_eq!(service.click(token).await, 204, "the inbox has no item to mark");
    }
    let unsubscribe = service.token(shop.id, ada, Purpose::Unsubscribe(CategoryId(1))).await;
    let mut forged = token.clone().into_bytes();
    forged[20] ^= 1;
    let forged = String::from_utf8(forged).unwrap();
    for token in [unsubscribe.as_str(), forged.as_str(), "x", "%FF", &"a".repeat(5_000)] {
        assert_eq!(service.click(token).await, 404, "{token}");
    }
    assert_eq!(service.list(&shop, "ada", "").await["unreadCount"], 1);
    let get = service.call(&format!("GET /v3/push/click/{token}")).send().await;
    assert_eq!(
        (get.status, get.header("allow")),
        (405, Some("POST, OPTIONS")),
        "a GET by a link fetcher reports nothing"
    );
    assert_ne!(get.body, Value::Null);
}
