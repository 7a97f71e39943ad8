//! `tidings rebuild inbox` while all services run, apps send, and users change their inboxes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use testkit::eventually;

use crate::directory::Directory;
use crate::inboxes::SOON;
use crate::running::RunningProcess;

const PEOPLE: [&str; 4] = ["ada", "bob", "eve", "joe"];
/// Number of sends before the first rebuild: more than one page of an inbox.
const BEFORE: usize = 30;
const REBUILDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_loses_no_item_and_fails_no_request() {
    let directory = Directory::new();
    let mut running = RunningProcess::start(&directory.path().join("data")).await;
    for person in PEOPLE {
        let (status, user) = running.call(Method::PUT, &format!("/users/{person}"), Some(&json!({}))).await;
        assert_eq!(status, 200, "{user}");
    }
    let (is_over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    for _ in 0..BEFORE {
        send(&running, &sent).await;
    }
    let rebuilding = async {
        let rebuilt = tokio::task::spawn_blocking(move || {
            let run = |_| directory.run(&["rebuild", "inbox", "--data-dir", "data", "--json"]).json();
            let rebuilt: Vec<Value> = (0..REBUILDS).map(run).collect();
            (directory, rebuilt)
        });
        let rebuilt = rebuilt.await.unwrap();
        is_over.store(true, Ordering::Release);
        rebuilt
    };
    let ((directory, rebuilt), (), ()) = tokio::join!(
        rebuilding,
        async {
            while !is_over.load(Ordering::Acquire) {
                send(&running, &sent).await;
            }
        },
        async {
            while !is_over.load(Ordering::Acquire) {
                for person in PEOPLE {
                    change(&running, person).await;
                }
            }
        }
    );
    for (before, after) in rebuilt.iter().zip(&rebuilt[1..]) {
        assert_eq!(before["switched"], json!(true));
        assert!(
            after["items"].as_u64() > before["items"].as_u64(),
            "no send arrived during the rebuild: {rebuilt:?}"
        );
    }
    assert_eq!(rebuilt.last().unwrap()["switched"], json!(true));

    let sent = sent.load(Ordering::Relaxed);
    for person in PEOPLE {
        eventually(SOON, "every send is in the inbox exactly once", async || {
            let (_, inbox) = running.get_as(person, "/notifications").await;
            let found = usize::try_from(inbox["pagination"]["totalCount"].as_u64()?).ok()?;
            assert!(found <= sent, "{found} of {sent}");
            (found == sent).then_some(())
        })
        .await;
    }
    let verified = directory.run(&["verify", "--data-dir", "data", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    assert_eq!(running.stop().await, 0, "{}", running.log());
}

/// Sends a notification to all users.
async fn send(running: &RunningProcess, sent: &AtomicUsize) {
    let send = json!({"notification": {"title": "News"}, "sendTo": {"recipients": PEOPLE}});
    let (status, answer) = running.call(Method::POST, "/notifications", Some(&send)).await;
    assert_eq!(status, 202, "{answer}");
    sent.fetch_add(1, Ordering::Relaxed);
}

/// Lists an inbox, marks its latest item as read, and checks that the item is read.
async fn change(running: &RunningProcess, person: &str) {
    let (status, inbox) = running.get_as(person, "/notifications").await;
    assert_eq!(status, 200, "{inbox}");
    let Some(id) = inbox["data"][0]["id"].as_i64() else { return };
    let (status, read) = running.post_as(person, &format!("/notifications/{id}/click")).await;
    assert!([200, 202].contains(&status), "{read}");
    if status == 202 {
        return;
    }
    let (status, item) = running.get_as(person, &format!("/notifications/{id}")).await;
    assert_eq!(status, 200, "{item}");
    assert!(!item["clickedAt"].is_null(), "a change that was answered with 200 is not visible: {item}");
}
