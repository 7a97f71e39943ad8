//! Changes of credentials while services run.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SOON: Duration = Duration::from_secs(60);
const PASSWORDS: [&str; 2] = ["canary-old-password", "canary-new-password"];

/// Starts a mail relay that requires this password.
async fn relay(port: u16, password: &str) -> SmtpStandIn {
    let login = Some(("shop".to_owned(), password.to_owned()));
    SmtpStandIn::start(SmtpSettings { port, login, ..SmtpSettings::default() }, Outbox::in_memory())
        .await
        .unwrap()
}

fn set_password(directory: &Directory, port: u16, password: &str) -> String {
    let document = json!({
        "identifier": "relay", "channel": "email", "kind": "smtp", "priority": 1,
        "settings": {
            "host": "127.0.0.1", "port": port, "security": "none", "username": "shop", "password": password,
            "from": "shop@example.com",
        },
    });
    let set =
        directory.run_with(&["provider", "set", "demo", "--data-dir", "data"], &[], &document.to_string());
    assert_eq!(set.code, 0, "{}", set.errors);
    set.output + &set.errors
}

async fn send(running: &RunningProcess, title: &str) {
    let send = json!({
        "notification": {"title": title, "message": "Hello"},
        "sendTo": {"recipients": [{"identifier": "ada", "email": "ada@example.org"}]},
    });
    let (status, answer) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{answer}");
}

async fn await_message(relay: &SmtpStandIn, title: &str) {
    eventually(SOON, "the relay receives the message", async || {
        let captures = relay.outbox().captures();
        captures.iter().any(|capture| String::from_utf8_lossy(&capture.raw).contains(title)).then_some(())
    })
    .await;
}

fn files(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("outbox") {
            files(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_is_used_without_a_restart_and_never_shown() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut running = RunningProcess::start_with(&data, &[("TIDINGS_LOG__LEVEL", "debug")]).await;
    let disabled = directory.run(&["provider", "disable", "demo", "stand-in", "--data-dir", "data"]);
    assert_eq!(disabled.code, 0, "{}", disabled.errors);
    // The port is reserved, so it is still free when the new relay starts.
    let port = local_servers::port::free().unwrap();
    let old = relay(port, PASSWORDS[0]).await;
    let mut said = set_password(&directory, port, PASSWORDS[0]);
    send(&running, "before-the-change").await;
    await_message(&old, "before-the-change").await;

    old.stop().await;
    let new = relay(port, PASSWORDS[1]).await;
    said += &set_password(&directory, port, PASSWORDS[1]);
    send(&running, "after-the-change").await;
    await_message(&new, "after-the-change").await;

    for arguments in [
        &["provider", "list", "demo", "--data-dir", "data", "--json"][..],
        &["provider", "show", "demo", "relay", "--data-dir", "data"],
        &["provider", "test", "demo", "relay", "--data-dir", "data", "--json"],
    ] {
        let answer = directory.run(arguments);
        assert_eq!(answer.code, 0, "{}", answer.errors);
        said += &(answer.output + &answer.errors);
    }
    assert_eq!(running.stop().await, 0);
    said += &running.log();
    files(&data, &mut said);
    assert!(said.contains("relay"));
    for password in PASSWORDS {
        assert!(!said.contains(password), "{password} was shown");
    }
}
