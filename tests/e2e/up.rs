//! `tidings up`: the first steps of a new user.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::descendants::Descendant;
use crate::directory::Directory;
use crate::running::{RunningProcess, STOPPED_WITHIN};

const VISIBLE_WITHIN: Duration = Duration::from_secs(20);
const ADDRESS: &str = "ada@example.com";
const TITLE: &str = "Hello Ada";
const MESSAGE: &str = "Your parcel is on its way.";

#[tokio::test]
async fn a_send_reaches_inbox_and_mailbox_and_survives_a_restart() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut running = RunningProcess::start(&data).await;
    check_the_printed_first_steps(&running, &data);
    refuse_a_second(&directory);

    let (status, user) = running.call(Method::PUT, "/users/ada", Some(&json!({"email": ADDRESS}))).await;
    assert_eq!(status, 200, "{user}");
    let request = send(&running).await;
    let (item, mail) = (inbox_item(&running).await, mail(&running).await);
    let delivery = settled_delivery(&running, &request).await;
    check_contents(&item, &mail, &delivery);
    assert_eq!(running.status_of(running.dev("metrics")).await, 200);
    assert_eq!(running.status_of(running.dev("shop")).await, 200);

    check_that_foreign_hosts_are_refused(&running).await;
    check_that_captures_are_private(&data);
    let (before, dev) = (running.descendants(), running.dev.clone());
    assert!(before.iter().any(|process| process.name == "nats-server"), "{before:?}");
    assert_eq!(running.stop().await, 0, "{}", running.log());
    assert!(!running.has_dev_file());
    all_gone(&before).await;

    let mut running = RunningProcess::start(&data).await;
    for kept in ["appId", "apiKey", "apiSecret"] {
        assert_eq!(running.dev[kept], dev[kept], "{kept}");
    }
    assert_eq!(inbox_item(&running).await, item);
    assert_eq!(running.mails(ADDRESS).await, [mail]);
    assert_eq!(settled_delivery(&running, &request).await, delivery);
    let request = send(&running).await;
    settled_delivery(&running, &request).await;
    assert_eq!(running.mails(ADDRESS).await.len(), 2);
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

/// Makes the send that the printed first steps show, and returns the request's id.
async fn send(running: &RunningProcess) -> String {
    let send = json!({
        "notification": {"title": TITLE, "message": MESSAGE},
        "sendTo": {"recipients": ["ada"]},
    });
    let (status, sent) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{sent}");
    sent["requestId"].as_str().unwrap().to_owned()
}

fn check_contents(item: &Value, mail: &Value, delivery: &Value) {
    assert_eq!((&item["title"], &item["message"]), (&json!(TITLE), &json!(MESSAGE)));
    assert_eq!((&mail["subject"], &mail["to"]), (&json!(TITLE), &json!([ADDRESS])));
    for part in ["text", "html"] {
        assert!(mail[part].as_str().unwrap().contains(MESSAGE), "{part}: {mail}");
    }
    let message_id = mail["headers"]["message-id"][0].as_str().unwrap();
    assert!(message_id.contains(delivery["id"].as_str().unwrap()), "{message_id} of {delivery}");
}

/// Only the owner of the data directory can read captured messages (finding S23 in docs/security.md).
fn check_that_captures_are_private(data: &std::path::Path) {
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let outbox = data.join("outbox");
    assert_eq!((mode(data), mode(&outbox)), (0o700, 0o700));
    for file in std::fs::read_dir(&outbox).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// The first steps that `tidings up` prints contain addresses and the API secret from dev.json. Only the owner can read the files
/// that contain secrets.
fn check_the_printed_first_steps(running: &RunningProcess, data: &std::path::Path) {
    let (log, api, outbox) = (running.log(), running.dev("api"), running.dev("outbox"));
    for line in [
        format!("curl -sS -X PUT {api}/v3/users/ada "),
        format!("curl -sS -X POST {api}/v3/notifications "),
        format!("curl -sS {api}/v3/notifications "),
        format!("curl -sS '{outbox}/messages?channel=email&to={ADDRESS}'"),
        format!("curl -sS {api}/v3/requests/"),
        format!("X-SERVICE-API-SECRET: {}", running.dev("apiSecret")),
        running.dev("metrics").to_owned(),
    ] {
        assert!(log.contains(&line), "{line} is missing in {log}");
    }
    for file in ["dev.json", "demo-app.json", "master.key"] {
        let mode = data.join(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let names: Vec<&str> = running.dev.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "api",
        "apiKey",
        "apiSecret",
        "appId",
        "databaseUrl",
        "metrics",
        "natsUrl",
        "outbox",
        "pushService",
        "shop",
    ];
    assert_eq!(names, expected);
}

/// A second `tidings up` fails and names the running one. Other commands find the running one by its data directory.
fn refuse_a_second(directory: &Directory) {
    let second = directory.run(&["up", "--data-dir", "data", "--port", "0"]);
    assert_eq!(second.code, 1);
    assert!(
        second.errors.contains("another `tidings up`") && second.errors.contains("--data-dir"),
        "{}",
        second.errors
    );
    let apps = directory.run(&["app", "list", "--data-dir", "data", "--json"]).json();
    assert_eq!(apps[0]["name"], "demo");
    let migrated = directory.run(&["migrate", "--data-dir", "data"]);
    assert_eq!(migrated.code, 0, "{}", migrated.errors);
}

/// A page of another site whose name resolves to this machine gets neither captures nor the demo page.
async fn check_that_foreign_hosts_are_refused(running: &RunningProcess) {
    let client = reqwest::Client::new();
    for page in [running.dev("shop").to_owned(), format!("{}/messages", running.dev("outbox"))] {
        for (host, status) in [("localhost", 200), ("[::1]:8025", 200), ("attacker.example:8025", 403)] {
            let answer = client.get(&page).header("host", host).send().await.unwrap();
            assert_eq!(answer.status(), status, "{host} at {page}");
            let text = answer.text().await.unwrap();
            assert_eq!(text.contains("localhost, an IP address"), status == 403, "{host} at {page}: {text}");
        }
    }
}

async fn inbox_item(running: &RunningProcess) -> Value {
    let inbox = eventually(VISIBLE_WITHIN, "the inbox shows the unread notification", async || {
        let (status, inbox) = running.get_as("ada", "/notifications").await;
        assert_eq!(status, 200, "{inbox}");
        (inbox["data"] != json!([])).then_some(inbox)
    });
    let inbox = inbox.await;
    assert_eq!((&inbox["unreadCount"], &inbox["unseenCount"]), (&json!(1), &json!(1)));
    assert_eq!(inbox["data"].as_array().unwrap().len(), 1);
    inbox["data"][0].clone()
}

async fn mail(running: &RunningProcess) -> Value {
    let mails = eventually(VISIBLE_WITHIN, "the outbox has the email", async || {
        let mails = running.mails(ADDRESS).await;
        (!mails.is_empty()).then_some(mails)
    });
    let mut mails = mails.await;
    assert_eq!(mails.len(), 1);
    mails.remove(0)
}

/// Waits until the email is sent, and returns its delivery. The answer is 404 until the request is planned.
async fn settled_delivery(running: &RunningProcess, request: &str) -> Value {
    let path = format!("/requests/{request}/deliveries?channel=email");
    eventually(VISIBLE_WITHIN, "the delivery is sent", async || {
        let (status, deliveries) = running.call(Method::GET, &path, None).await;
        assert!(matches!(status, 200 | 404), "{status}: {deliveries}");
        (deliveries["data"][0]["status"] == "sent").then(|| deliveries["data"][0].clone())
    })
    .await
}

/// Waits until all processes that `tidings up` had started have ended.
pub(crate) async fn all_gone(before: &[Descendant]) {
    eventually(STOPPED_WITHIN, "every process of tidings up has ended", async || {
        (!before.iter().any(Descendant::is_running)).then_some(())
    })
    .await;
}
