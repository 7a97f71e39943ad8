//! Audit rows about destructive API calls, and log lines about refused credentials.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use service_kit::clock;
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const TOMORROW: Duration = Duration::from_secs(86_400);
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn erasures_cancellations_and_refused_credentials_are_audited_or_logged() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let (status, user) = running.call(Method::PUT, "/users/ursula", Some(&json!({"name": "Ursula"}))).await;
    assert_eq!(status, 200, "{user}");
    let later = json!({
        "notification": {"title": "Hello"}, "sendTo": {"recipients": ["bob"]}, "sendAt": clock::now() + TOMORROW,
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&later)).await;
    assert_eq!(status, 202, "{sent}");
    let request = sent["requestId"].as_str().unwrap();
    cancel(&running, request).await;
    let (status, erased) = running.call(Method::DELETE, "/users/ursula", None).await;
    assert_eq!(status, 202, "{erased}");

    let listed = directory.run(&["audit", "list", "demo", "--json", "--data-dir", "data"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let rows: Value = serde_json::from_str(&listed.output).unwrap();
    let of = |action: &str| rows.as_array().unwrap().iter().find(|row| row["action"] == action).cloned();
    let erasure = of("user.erase").unwrap();
    assert_eq!([&erasure["actor"], &erasure["actorKind"]], ["api:127.0.0.1", "app"], "{rows}");
    assert!(
        erasure["subject"].as_str().unwrap().starts_with("user "),
        "the row names the user by number: {rows}"
    );
    assert!(
        !listed.output.contains("ursula"),
        "an audit row contains the identifier of the erased user: {rows}"
    );
    let cancellation = of("request.cancel").unwrap();
    assert_eq!(cancellation["subject"], format!("request {request}"), "{rows}");
    let future = directory.run(&[
        "audit",
        "list",
        "demo",
        "--since",
        "2040-01-01T00:00:00Z",
        "--json",
        "--data-dir",
        "data",
    ]);
    assert_eq!(future.output.trim(), "[]", "{future:?}");
    let unreadable = directory.run(&["audit", "list", "demo", "--since", "yesterday", "--data-dir", "data"]);
    assert_eq!(unreadable.code, 2, "{unreadable:?}");

    for _ in 0..3 {
        refused_call(&running).await;
    }
    let counted = "tidings_refused_credentials_total{code=\"invalid_credentials\"} 3";
    eventually(SOON, "the refusals are counted", async || {
        let metrics = reqwest::get(running.dev("metrics")).await.ok()?.text().await.ok()?;
        metrics.contains(counted).then_some(())
    })
    .await;
    assert_eq!(running.stop().await, 0, "{}", running.log());
    let log = running.log();
    let line = log.lines().find(|line| line.contains("refused the credentials of a request")).unwrap();
    assert!(
        line.contains("127.0.0.1") && line.contains("invalid_credentials") && line.contains(" app=1 "),
        "{line}"
    );
    assert!(!log.contains("wrong-secret"), "{log}");
}

/// Cancels a request. The answer is 404 until the dispatcher has stored the request.
async fn cancel(running: &RunningProcess, request: &str) {
    let path = format!("/requests/{request}");
    eventually(SOON, "the request is cancelled", async || {
        let (status, answer) = running.call(Method::DELETE, &path, None).await;
        assert!(matches!(status, 200 | 404), "{status}: {answer}");
        (status == 200).then_some(())
    })
    .await;
}

/// Calls the API with a wrong secret.
async fn refused_call(running: &RunningProcess) {
    let url = format!("{}/v3/users", running.dev("api"));
    let call = Client::new().get(url).header("X-SERVICE-API-KEY", running.dev("apiKey"));
    let answer = call.header("X-SERVICE-API-SECRET", "wrong-secret").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer realm=\"tidings\"");
}
