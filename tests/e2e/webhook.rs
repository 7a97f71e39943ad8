//! `tidings webhook`, and a backend that receives webhooks of a running Tidings.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use stand_ins::http::{Rule, status};
use stand_ins::webhook::{ReceivedCall, WebhookReceiver};
use testkit::eventually;

use crate::directory::{Answer, Directory};
use crate::installation::Installation;
use crate::running::RunningProcess;

const SOON: Duration = Duration::from_secs(60);
const LOCAL: [(&str, &str); 1] = [("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")];

async fn await_webhook(backend: &WebhookReceiver, kind: &str) -> ReceivedCall {
    eventually(SOON, kind, async || backend.received().into_iter().find(|call| call.body["type"] == kind))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_report_the_outcome_of_a_send_and_that_it_was_read() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let backend = WebhookReceiver::start().await.unwrap();
    let url = backend.url("/tidings");
    let run = |arguments: &[&str]| directory.run(&[arguments, &["--data-dir", "data"]].concat());
    let set = run(&["webhook", "set", "demo", &url, "--json"]).json();
    backend.trust(&[set["secret"].as_str().unwrap()]);

    let send = json!({
        "notification": {"title": "Hi", "message": "Hello"},
        "sendTo": {"recipients": [
            {"identifier": "ada", "email": "ada@example.com"}, {"identifier": "bob", "email": "5.1.1@example.com"},
        ]},
    });
    let (_, accepted) = running.call(Method::POST, "/notifications", Some(&send)).await;
    let sent = await_webhook(&backend, "delivery.sent").await;
    assert_eq!(sent.body["data"]["recipient"], "ada");
    assert_eq!(sent.body["data"]["requestId"], accepted["requestId"]);
    assert_eq!(
        (&sent.body["data"]["channel"], &sent.body["data"]["provider"]),
        (&json!("email"), &json!("stand-in"))
    );
    let suppressed = await_webhook(&backend, "delivery.suppressed").await;
    assert_eq!(
        (&suppressed.body["data"]["recipient"], &suppressed.body["data"]["reason"]),
        (&json!("bob"), &json!("target_gone"))
    );
    let failed = await_webhook(&backend, "delivery.failed").await;
    assert_eq!(failed.body["data"]["deliveryId"], suppressed.body["data"]["deliveryId"]);

    let id = eventually(SOON, "the inbox has the item", async || {
        let (_, inbox) = running.get_as("ada", "/notifications").await;
        inbox["data"][0]["id"].as_i64()
    })
    .await;
    let answer = reqwest::Client::new()
        .post(format!("{}/v3/notifications/{id}/reads", running.dev("api")))
        .header("X-SERVICE-API-KEY", running.dev("apiKey"))
        .header("X-SERVICE-USER-ID", "ada")
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let read = await_webhook(&backend, "notification.read").await;
    assert_eq!(
        (&read.body["data"]["recipient"], &read.body["data"]["notificationId"]),
        (&json!("ada"), &json!(id))
    );

    let rotated = run(&["webhook", "secret", "rotate", "demo", &url, "--json"]).json();
    let tested = run(&["webhook", "test", "demo", &url, "--json"]).json();
    assert_eq!(tested["taken"], true, "Tidings still signs with the old secret too");
    backend.trust(&[rotated["secret"].as_str().unwrap()]);
    assert_eq!(run(&["webhook", "test", "demo", &url]).code, 0);
    assert_eq!(backend.refused(), Vec::<&str>::new());
    let bodies: String = backend.received().iter().map(|call| call.body.to_string()).collect();
    assert!(!bodies.contains("example.com"), "webhooks must not contain an address");
    assert_eq!(running.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_set_listed_tested_and_removed() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let backend = WebhookReceiver::start().await.unwrap();
    let url = backend.url("/tidings");
    let run = |arguments: &[&str]| -> Answer { installation.run_configured(arguments, &LOCAL, "") };
    let refused = run(&["webhook", "set", "shop", "https://me:hunter2@example.com/hooks"]);
    assert!(refused.code == 2 && !refused.errors.contains("hunter2"), "{}", refused.errors);
    let unknown = run(&["webhook", "set", "shop", &url, "--events", "delivery.lost"]);
    assert!(unknown.code == 2 && unknown.errors.contains("delivery.failed"), "{}", unknown.errors);
    let set =
        run(&["webhook", "set", "shop", &url, "--events", "delivery.failed,notification.read", "--json"])
            .json();
    let secret = set["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() > 40);
    assert_eq!(set["events"], json!(["delivery.failed", "notification.read"]));
    let again = run(&["webhook", "set", "shop", &url, "--json"]).json();
    assert_eq!((&again["secret"], &again["id"]), (&Value::Null, &set["id"]));
    assert_eq!(again["events"].as_array().unwrap().len(), 5);

    let listed = run(&["webhook", "list", "shop", "--json"]);
    assert!(!listed.output.contains(secret));
    let listed = listed.json();
    assert_eq!(
        (&listed[0]["url"], &listed[0]["secrets"], &listed[0]["pending"]),
        (&json!(url), &json!(1), &json!(0))
    );
    assert!(run(&["webhook", "list", "shop"]).output.contains(&url));

    let refused = run(&["webhook", "test", "shop", &url]);
    assert_eq!(refused.code, 1, "the backend does not know the secret");
    assert!(refused.errors.contains("401") && !refused.errors.contains(secret), "{}", refused.errors);
    backend.trust(&[secret]);
    assert!(run(&["webhook", "test", "shop", &url]).output.contains("204"));
    backend.script(Rule::answer(status(500)));
    assert!(run(&["webhook", "test", "shop", &url]).errors.contains("500"));

    assert_eq!(run(&["webhook", "failed", "shop", "--json"]).json(), json!([]));
    assert_eq!(run(&["webhook", "redeliver", "shop", "--all", "--json"]).json(), json!({"redelivered": 0}));
    let removed = run(&["webhook", "remove", "shop", &url, "--json"]).json();
    assert_eq!((&removed["url"], &removed["untold"]), (&json!(url), &json!(0)));
    assert_eq!(run(&["webhook", "remove", "shop", &url]).code, 1);
}
