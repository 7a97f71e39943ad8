//! Push to phones with `tidings up`: one message over APNs, one over FCM, and a dead token.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const WITHIN: Duration = Duration::from_secs(20);
const PHONE: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";
const ANDROID: &str = "bk3RNwTe3H0:CI2k_HHwgIpoDKCIZvvDMExUdFQ3P1";

#[tokio::test]
async fn a_send_reaches_phones_over_apns_and_fcm_and_a_dead_token_is_removed_from_the_profile() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let profile = json!({"apns": {"tokens": [PHONE]}, "fcm": {"tokens": [ANDROID, "UNREGISTERED"]}});
    let (status, user) = running.call(Method::PUT, "/users/ada", Some(&profile)).await;
    assert_eq!(status, 200, "{user}");
    let send = json!({
        "notification": {"title": "Your parcel", "message": "It is on its way.", "data": {"parcel": 7}},
        "sendTo": {"recipients": ["ada"]},
        "override": {"channels": ["mobilePush"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");

    for (to, title, data) in [
        (format!("apns:{PHONE}"), "/aps/alert/title", ("/data/parcel", json!(7))),
        (format!("fcm:{ANDROID}"), "/message/notification/title", ("/message/data/parcel", json!("7"))),
    ] {
        let message = push(&running, &to).await;
        assert_eq!(message.pointer(title), Some(&json!("Your parcel")), "{message}");
        assert_eq!(message.pointer(data.0), Some(&data.1), "{message}");
    }
    eventually(WITHIN, "the dead token is removed from the profile", async || {
        let (_, user) = running.call(Method::GET, "/users/ada", None).await;
        (user["profile"]["fcm"]["tokens"] == json!([ANDROID])).then_some(())
    })
    .await;
    let request = sent["requestId"].as_str().unwrap();
    let path = format!("/requests/{request}/deliveries?channel=mobilePush");
    let deliveries = eventually(WITHIN, "all deliveries have a final status", async || {
        let (_, page) = running.call(Method::GET, &path, None).await;
        let mut states: Vec<String> =
            page["data"].as_array()?.iter().map(|d| d["status"].to_string()).collect();
        states.sort();
        (states == [r#""failed""#, r#""sent""#, r#""sent""#]).then_some(page)
    })
    .await;
    let failed = deliveries["data"].as_array().unwrap().iter().find(|d| d["status"] == "failed").unwrap();
    assert_eq!((&failed["reason"], &failed["target"]), (&json!("target_gone"), &json!("fcm:U***")));
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

/// Returns the message to a token, as its push service received it.
async fn push(running: &RunningProcess, to: &str) -> Value {
    use base64::Engine as _;
    let outbox = running.dev("outbox");
    let url = format!("{outbox}/messages?channel=mobilePush&to={to}");
    let raw = eventually(WITHIN, "the push arrives", async || {
        let page: Value = reqwest::get(&url).await.ok()?.json().await.ok()?;
        Some(page["data"].get(0)?["raw"].as_str()?.to_owned())
    })
    .await;
    serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(raw).unwrap()).unwrap()
}
