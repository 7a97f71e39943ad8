//! Web push with `tidings up`: browsers that get messages, dry runs, and dead browsers.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SETTLED_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for attempts at hosts that do not exist. Each look-up of their names may time out.
const TRIED_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn each_browser_gets_the_message_and_a_dead_browser_is_never_called_again() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let tested = directory.run(&["provider", "test", "demo", "stand-in-web-push", "--data-dir", "data"]);
    assert!(tested.code == 0 && tested.output.contains("the app's key pair signs"), "{tested:?}");

    for (device, asked) in [("laptop", json!({})), ("phone", json!({"answers": 410}))] {
        let subscriptions = format!("{}/subscriptions", running.dev("pushService"));
        let subscription = Client::new().post(subscriptions).json(&asked).send().await.unwrap();
        let subscription: Value = subscription.json().await.unwrap();
        let path = format!("/devices/{device}/webPushSubscription?userIdentifier=ada");
        let (status, stored) = running.call(Method::POST, &path, Some(&subscription)).await;
        assert_eq!(status, 200, "{stored}");
    }
    let masked = json!(format!("{}/***", running.dev("pushService")));
    let send = json!({
        "notification": {"title": "Hello"}, "sendTo": {"recipients": ["ada"]},
        "override": {"channels": ["webPush"], "channel": {"webPush": {"body": "to browsers", "urgency": "low"}}},
    });
    let (status, tried) = running.call(Method::POST, "/notifications?dryRun=true", Some(&send)).await;
    assert_eq!((status, &tried["counts"]["webPush"]), (200, &json!({"queued": 2})), "{tried}");
    let would: Vec<_> = tried["data"].as_array().unwrap().iter().map(|one| &one["target"]).collect();
    assert_eq!(would.iter().filter(|target| ***target == masked).count(), 2, "{tried}");

    let first = deliveries(&running, &send).await;
    let found: Vec<_> = first.iter().map(|one| (&one["status"], &one["reason"], &one["target"])).collect();
    let sent = (&json!("sent"), &Value::Null, &masked);
    let dead = (&json!("failed"), &json!("target_gone"), &masked);
    assert!(found.contains(&sent) && found.contains(&dead) && found.len() == 2, "{first:?}");
    let message = message(&running).await;
    assert_eq!((&message["title"], &message["body"]), (&json!("Hello"), &json!("to browsers")));

    let second = deliveries(&running, &send).await;
    assert_eq!((second.len(), &second[0]["status"]), (1, &json!("sent")), "{second:?}");
    let (_, user) = running.call(Method::GET, "/users/ada", None).await;
    let mut devices: Vec<_> = user["devices"].as_array().unwrap().iter().collect();
    devices.sort_by_key(|device| device["deviceId"].to_string());
    let reached: Vec<_> = devices.iter().map(|device| &device["webPush"]).collect();
    assert_eq!(reached, [true, false], "{user}");
    assert!(!running.log().contains("/push/"), "an endpoint is in the log: {}", running.log());
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

/// Makes a send, waits until all its web push deliveries have a final status, and returns them.
async fn deliveries(running: &RunningProcess, send: &Value) -> Vec<Value> {
    let (status, sent) = running.call(Method::POST, "/notifications", Some(send)).await;
    assert_eq!(status, 202, "{sent}");
    let path = format!("/requests/{}/deliveries?channel=webPush", sent["requestId"].as_str().unwrap());
    eventually(SETTLED_WITHIN, "every delivery has a final status", async || {
        let (_, deliveries) = running.call(Method::GET, &path, None).await;
        let deliveries = deliveries["data"].as_array()?.clone();
        let ended = !deliveries.is_empty() && deliveries.iter().all(|one| one["settledAt"].is_string());
        ended.then_some(deliveries)
    })
    .await
}

/// Returns the latest message that a browser received.
async fn message(running: &RunningProcess) -> Value {
    let url = format!("{}/messages?channel=webPush", running.dev("outbox"));
    let answer: Value = Client::new().get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["data"][0]["headers"]["urgency"], json!(["low"]), "{answer}");
    serde_json::from_str(answer["data"][0]["text"].as_str().unwrap()).unwrap()
}

/// Stores 50 web push subscriptions of one user, to all of which pushes fail. Half of them have an endpoint whose host does not
/// exist; for the other half the push service answers with an error.
async fn store_failing_browsers(running: &RunningProcess) {
    let answers = [400, 401, 403, 413, 429, 500, 503];
    for number in 0..50 {
        let asked = json!({"answers": answers[number % answers.len()]});
        let mut subscription = subscribed(running, &asked).await;
        if number % 2 == 0 {
            subscription["endpoint"] = json!(format!("https://nx{number}.notify.windows.com/w/{number}"));
        }
        store(running, "mallory", &format!("m{number}"), &subscription).await;
    }
}

async fn subscribed(running: &RunningProcess, asked: &Value) -> Value {
    let url = format!("{}/subscriptions", running.dev("pushService"));
    Client::new().post(url).json(asked).send().await.unwrap().json().await.unwrap()
}

async fn store(running: &RunningProcess, user: &str, device: &str, subscription: &Value) {
    let path = format!("/devices/{device}/webPushSubscription?userIdentifier={user}");
    let (status, stored) = running.call(Method::POST, &path, Some(subscription)).await;
    assert_eq!(status, 200, "{stored}");
}

#[tokio::test]
async fn broken_browsers_of_one_user_never_delay_the_delivery_of_another() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    store_failing_browsers(&running).await;
    store(&running, "bob", "laptop", &subscribed(&running, &json!({})).await).await;
    let to = |user: &str| {
        json!({
            "notification": {"title": "Hello"}, "sendTo": {"recipients": [user]},
            "override": {"channels": ["webPush"], "channel": {"webPush": {"urgency": "low"}}},
        })
    };
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&to("mallory"))).await;
    assert_eq!(status, 202, "{sent}");
    let path =
        format!("/requests/{}/deliveries?channel=webPush&limit=100", sent["requestId"].as_str().unwrap());
    eventually(TRIED_WITHIN, "every browser of Mallory was tried", async || {
        let (_, deliveries) = running.call(Method::GET, &path, None).await;
        let deliveries = deliveries["data"].as_array()?.clone();
        let tried =
            deliveries.iter().filter(|one| one["attempts"].as_array().is_some_and(|all| !all.is_empty()));
        (tried.count() == 50).then_some(())
    })
    .await;
    for _ in 0..3 {
        let bobs = deliveries(&running, &to("bob")).await;
        assert_eq!((bobs.len(), &bobs[0]["status"]), (1, &json!("sent")), "{bobs:?}");
    }
    assert_eq!(running.stop().await, 0, "{}", running.log());
}
