//! A send from the API call to the click on its notification. Only the push service of the browser's vendor is replaced.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::eventually;

use crate::page::Page;
use crate::running::RunningProcess;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_send_is_shown_and_a_click_opens_its_link_and_marks_it_read() {
    let files = tempfile::Builder::new().prefix("tidings-browser-").tempdir().unwrap();
    let mut running = RunningProcess::start(&files.path().join("data")).await;
    let endpoint = subscribe(&running).await;
    let send = json!({
        "notification": {"title": "Grüße", "message": "Your parcel is on its way.", "url": "/parcels/7"},
        "data": {"parcel": 7},
        "sendTo": {"recipients": ["ada"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    let request = sent["requestId"].as_str().unwrap();
    let message = pushed(&running, &endpoint).await;
    let delivery = settled(&running, request).await;
    let masked = format!("{}/***", running.dev("pushService"));
    assert_eq!((&delivery["status"], &delivery["target"]), (&json!("sent"), &json!(masked)));

    let mut page = Page::open("/sw.js").await;
    page.push(&message.to_string()).await;
    let [shown] = &page.notifications().await[..] else { panic!("one notification") };
    assert_eq!((&shown["title"], &shown["body"]), (&json!("Grüße"), &json!("Your parcel is on its way.")));
    assert_eq!((&shown["data"]["data"], &shown["tag"]), (&json!({"parcel": 7}), &delivery["id"]));
    let (_, unread) = running.get_as("ada", "/notifications").await;
    assert_eq!((&unread["unreadCount"], &unread["data"][0]["clickedAt"]), (&json!(1), &Value::Null));

    let did = page.click(delivery["id"].as_str().unwrap()).await;
    let opened = format!("{}/parcels/7", page.origin);
    assert_eq!(did, json!({"opened": [opened], "focused": [], "left": 0}));
    let read = eventually(SOON, "the notification is marked as read", async || {
        let (_, read) = running.get_as("ada", "/notifications").await;
        (read["unreadCount"] == 0).then_some(read)
    });
    assert!(read.await["data"][0]["clickedAt"].is_string());
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

/// Connects a device of the user, subscribes a browser of the stand-in with the app's key, and returns the endpoint.
async fn subscribe(running: &RunningProcess) -> String {
    let user = |path: &str| {
        running
            .request(Method::POST, path)
            .header("X-SERVICE-USER-ID", "ada")
            .header("X-SERVICE-DEVICE-ID", "laptop")
    };
    let connect = user("/sdk/connect").json(&json!({"deviceType": "browser"})).send().await.unwrap();
    let connected: Value = connect.json().await.unwrap();
    assert_eq!(connected["app"]["enableWebPush"], true, "{connected}");
    let subscriptions = format!("{}/subscriptions", running.dev("pushService"));
    let key = json!({"applicationServerKey": connected["app"]["publicKey"]});
    let subscription = Client::new().post(subscriptions).json(&key).send().await.unwrap();
    let subscription: Value = subscription.json().await.unwrap();
    let stored = user("/devices/laptop/webPushSubscription").json(&subscription).send().await.unwrap();
    assert_eq!(stored.status(), 200);
    subscription["endpoint"].as_str().unwrap().to_owned()
}

/// Waits for the only message for the browser, and returns its decrypted content.
async fn pushed(running: &RunningProcess, endpoint: &str) -> Value {
    let url = format!("{}/messages?channel=webPush", running.dev("outbox"));
    let message = eventually(SOON, "the push service receives the message", async || {
        let answer: Value = Client::new().get(&url).send().await.unwrap().json().await.unwrap();
        answer["data"].as_array().unwrap().first().cloned()
    });
    let message = message.await;
    assert_eq!(message["to"], json!([endpoint]));
    serde_json::from_str(message["text"].as_str().unwrap()).unwrap()
}

async fn settled(running: &RunningProcess, request: &str) -> Value {
    let path = format!("/requests/{request}/deliveries?channel=webPush");
    eventually(SOON, "the delivery is settled", async || {
        let (_, deliveries) = running.call(Method::GET, &path, None).await;
        deliveries["data"][0]["settledAt"].is_string().then(|| deliveries["data"][0].clone())
    })
    .await
}
