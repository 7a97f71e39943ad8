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
    // Another process may have got a port while `tidings up` was stopped; that is reported.
    if !running.log().contains("is in use by another program") {
        for kept in ["outbox", "shop", "metrics", "pushService", "providers"] {
            assert_eq!(running.dev[kept], dev[kept], "{kept}");
        }
        let consoles =
            [&running.dev, &dev].map(|dev| dev["console"].as_str().unwrap().split_once("?code=").unwrap());
        assert_eq!(consoles[0].0, consoles[1].0, "the console keeps its port");
        assert_ne!(consoles[0].1, consoles[1].1, "each start has a new link");
    }
    assert_eq!(inbox_item(&running).await, item);
    assert_eq!(running.mails(ADDRESS).await, [mail]);
    assert_eq!(settled_delivery(&running, &request).await, delivery);
    let request = send(&running).await;
    settled_delivery(&running, &request).await;
    assert_eq!(running.mails(ADDRESS).await.len(), 2);
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

#[tokio::test]
async fn the_demo_send_uses_every_channel_and_prints_what_became_of_it() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    let sent = directory.run(&["demo", "send", "--user", "bob", "--data-dir", "data", "--json"]).json();
    let statuses = sent["deliveries"].as_array().unwrap().iter();
    let statuses = statuses.map(|delivery| [delivery["channel"].as_str(), delivery["status"].as_str()]);
    // The stand-in for Twilio reports at once that the SMS arrived.
    let mut statuses: Vec<_> = statuses
        .map(|pair| pair.map(Option::unwrap).join(" ").replace("sms delivered", "sms sent"))
        .collect();
    statuses.sort();
    let expected = ["email sent", "inApp delivered", "mobilePush sent", "sms sent", "webPush sent"];
    assert_eq!(statuses, expected, "{sent}");

    // A second send has a new browser, and is printed as a table.
    let printed = directory.run(&["demo", "send", "--data-dir", "data"]);
    assert_eq!(printed.code, 0, "{}", printed.errors);
    assert!(
        printed.output.contains("CHANNEL") && printed.output.contains(running.dev("outbox")),
        "{printed:?}"
    );
    let nowhere = directory.run(&["demo", "send", "--data-dir", "nothing-here"]);
    check_the_printed_calls(&running);
    assert!(nowhere.code == 1 && nowhere.errors.contains("no `tidings up` runs"), "{nowhere:?}");
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

#[tokio::test]
async fn an_own_app_uses_the_stand_ins_and_logs_stay_text_with_a_configuration_file() {
    let directory = Directory::new();
    let file = directory.path().join("tidings.toml");
    std::fs::write(&file, "[streams]\nretention = '7d'\n").unwrap();
    let config = [("TIDINGS_CONFIG", file.to_str().unwrap())];
    let mut running = RunningProcess::start_with(&directory.path().join("data"), &config).await;
    let created = directory.run(&["app", "create", "shop", "--data-dir", "data", "--json"]).json();
    let channels = "email,sms,web-push,mobile-push";
    let arguments = ["provider", "set", "shop", "--stand-in", channels, "--data-dir", "data"];
    let set = directory.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(set.as_array().unwrap().len(), 5, "{set}");
    for set in set.as_array().unwrap() {
        let identifier = set["identifier"].as_str().unwrap();
        let tested = directory.run(&["provider", "test", "shop", identifier, "--data-dir", "data"]);
        assert_eq!(tested.code, 0, "{identifier}: {tested:?}");
    }
    let send = json!({
        "notification": {"title": TITLE},
        "sendTo": {"recipients": [{"identifier": "ada", "email": "own@example.com", "phoneNumber": "+15005550010"}]},
    });
    let call = reqwest::Client::new().post(format!("{}/v3/notifications", running.dev("api")));
    let call = call.header("X-SERVICE-API-KEY", created["apiKey"].as_str().unwrap());
    let call = call.header("X-SERVICE-API-SECRET", created["apiSecret"].as_str().unwrap());
    assert_eq!(call.json(&send).send().await.unwrap().status(), 202);
    eventually(VISIBLE_WITHIN, "the outbox has the app's email", async || {
        (running.mails("own@example.com").await.len() == 1).then_some(())
    })
    .await;
    let without = directory.run(&["provider", "set", "shop", "--stand-in", "email", "--data-dir", "nowhere"]);
    assert!(without.code == 1 && without.errors.contains("no `tidings up` runs"), "{without:?}");
    let log = running.log();
    assert!(!log.lines().any(|line| line.starts_with('{')), "JSON lines in {log}");
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
        format!("  Start here     {api}\n"),
        format!("  Guide          {api}/guide\n"),
        format!("  API reference  {api}/docs\n"),
        format!("  Console        {} ", running.dev("console")),
        format!("  Outbox         {outbox} "),
        format!("  Metrics        {}\n", running.dev("metrics").trim_end_matches("/metrics")),
        format!("/debug:$PATH\n  tidings demo send --data-dir {}\n", data.display()),
        format!("  KEY={} SECRET={}\n", running.dev("apiKey"), running.dev("apiSecret")),
        format!("  API={api} OUTBOX={outbox}\n"),
    ] {
        assert!(log.contains(&line), "{line} is missing in {log}");
    }
    assert_eq!(log.matches(running.dev("apiSecret")).count(), 1, "{log}");
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
        "console",
        "databaseUrl",
        "headerPrefix",
        "metrics",
        "natsUrl",
        "outbox",
        "providers",
        "pushService",
        "shop",
    ];
    assert_eq!(names, expected);
}

/// The printed `curl` commands work as they stand.
fn check_the_printed_calls(running: &RunningProcess) {
    let log = running.log();
    let steps = log.split_once("  KEY=").unwrap().1.split_once("Ctrl-C").unwrap().0;
    let script = format!("set -e\nKEY={steps}");
    let printed = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    let (output, errors) = (printed.stdout, String::from_utf8_lossy(&printed.stderr).into_owned());
    let output = String::from_utf8(output).unwrap();
    assert!(printed.status.success() && errors.is_empty(), "{errors}");
    let (output, reference) = output.trim_end().rsplit_once('\n').unwrap();
    assert!(reference.starts_with(&format!("{}/docs#KEY=ak_", running.dev("api"))), "{reference}");
    let answers: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [user, sent, inbox, outbox, deliveries] = &answers[..] else { panic!("{output}") };
    assert_eq!(user["profile"]["email"], ADDRESS);
    assert!(sent["requestId"].is_string(), "{sent}");
    for list in [inbox, outbox] {
        assert_ne!(list["data"], json!([]), "{list}");
    }
    // A slow machine may not have planned the request yet.
    assert!(deliveries["data"].is_array() || deliveries["code"] == "not_found", "{deliveries}");
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
