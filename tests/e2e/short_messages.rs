//! SMS with `tidings up`, from the send to the provider's report.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const REPORTED_WITHIN: Duration = Duration::from_secs(30);
const TEXT: &str = "Grüße, 5 € und ein 😀";

/// Sends an SMS to a number, waits until its delivery has this status, and returns the delivery.
async fn send(running: &RunningProcess, number: &str, status: &str) -> Value {
    let send = json!({
        "notification": {"title": "Hello", "message": TEXT},
        "sendTo": {"recipients": [{"identifier": number, "phoneNumber": number}]},
        "override": {"channels": ["sms"]},
    });
    let (code, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(code, 202, "{sent}");
    let path = format!("/requests/{}/deliveries?channel=sms", sent["requestId"].as_str().unwrap());
    eventually(REPORTED_WITHIN, &format!("the message is {status}"), async || {
        let (_, page) = running.call(Method::GET, &path, None).await;
        page["data"].as_array()?.first().filter(|one| one["status"] == status).cloned()
    })
    .await
}

#[tokio::test]
async fn an_sms_becomes_delivered_when_the_provider_reports_it() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let delivered = send(&running, "+4915112345678", "delivered").await;
    let attempt = &delivered["attempts"][0];
    assert_eq!((&attempt["segments"], &attempt["receipt"]["outcome"]), (&json!(1), &json!("delivered")));
    assert_eq!(delivered["provider"], "stand-in-sms");
    let outbox = format!("{}/messages?channel=sms&to=%2B4915112345678", running.dev("outbox"));
    let captured: Value = reqwest::get(outbox).await.unwrap().json().await.unwrap();
    assert_eq!((&captured["data"][0]["text"], &captured["data"][1]), (&json!(TEXT), &Value::Null));

    // Twilio's stand-in reports 30005 for this number.
    let failed = send(&running, "+15005530005", "failed").await;
    assert_eq!(
        (&failed["reason"], &failed["attempts"][0]["outcome"]),
        (&json!("target_gone"), &json!("sent"))
    );
    assert_eq!(send(&running, "+15005530005", "skipped").await["reason"], "suppressed");
    assert_eq!(running.stop().await, 0, "{}", running.log());
}
