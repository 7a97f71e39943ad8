//! A user who turns off email for a category gets no emails in it. Front ends get the data for a preference screen and for web
//! push.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SETTLED_WITHIN: Duration = Duration::from_secs(20);
const ADDRESS: &str = "ada@example.com";

#[tokio::test]
async fn a_user_gets_no_email_of_a_category_that_they_turned_off() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    call(&running, Method::PUT, "/users/ada", json!({"email": ADDRESS})).await;
    let orders = json!({"identifier": "orders", "name": "Orders"});
    let orders = call(&running, Method::POST, "/categories", orders).await["id"].clone();
    let off =
        json!({"preference": [{"categoryId": orders, "channels": [{"channel": "email", "enabled": false}]}]});
    call(&running, Method::PATCH, "/preferences?userIdentifier=ada", off).await;

    let of_orders = send(&running, "Your order", Some("orders")).await;
    let other = send(&running, "News", None).await;
    assert_eq!(mail_of(&running, &other).await["status"], "sent");
    let skipped = mail_of(&running, &of_orders).await;
    assert_eq!((&skipped["status"], &skipped["reason"]), (&json!("skipped"), &json!("preference_off")));
    let subjects: Vec<_> =
        running.mails(ADDRESS).await.into_iter().map(|mail| mail["subject"].clone()).collect();
    assert_eq!(subjects, ["News"]);
    eventually(SETTLED_WITHIN, "the inbox shows both notifications", async || {
        let (_, list) = running.get_as("ada", "/notifications").await;
        (list["pagination"]["totalCount"] == 2).then_some(())
    })
    .await;

    let connect = running.request(Method::POST, "/sdk/connect?userIdentifier=ada");
    let connected = connect.header("X-SERVICE-DEVICE-ID", "d").send().await.unwrap();
    let connected: Value = connected.json().await.unwrap();
    assert_eq!(connected["app"]["publicKey"].as_str().map(str::len), Some(87), "{connected}");
    assert_eq!(connected["app"]["categories"], json!([{"id": orders, "name": "Orders"}]));
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

async fn call(running: &RunningProcess, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = running.call(method, path, Some(&body)).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Sends to ada, and returns the request's id.
async fn send(running: &RunningProcess, title: &str, category: Option<&str>) -> String {
    let send = json!({
        "notification": {"title": title}, "category": category, "sendTo": {"recipients": ["ada"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    sent["requestId"].as_str().unwrap().to_owned()
}

/// Waits until the email delivery of a send has a final status, and returns the delivery.
async fn mail_of(running: &RunningProcess, request: &str) -> Value {
    let path = format!("/requests/{request}/deliveries?channel=email");
    eventually(SETTLED_WITHIN, "the delivery is settled", async || {
        let (_, answer) = running.call(Method::GET, &path, None).await;
        let delivery = answer["data"][0].clone();
        ["sent", "skipped"].iter().any(|status| delivery["status"] == *status).then_some(delivery)
    })
    .await
}
