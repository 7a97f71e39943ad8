//! The bytes of a send in the log, which `docs/deploy/sizing.md` states.

use std::collections::BTreeMap;

use domain::StreamName;
use serde_json::{Value, json};
use testkit::eventually;

use crate::mailbox::Mailbox;
use crate::service::{App, SOON, Service};

const SEND: &str = "POST /v3/notifications";

fn send_to(user: usize, message: &str) -> Value {
    let recipient =
        json!({"identifier": format!("user-{user}"), "email": format!("user-{user}@example.com")});
    json!({"notification": {"title": "Your order", "message": message}, "sendTo": {"recipients": [recipient]}})
}

pub(super) async fn accept(service: &Service, app: &App, user: usize, message: &str) {
    service.by(app, SEND).json(&send_to(user, message)).send().await.is(202);
}

pub(super) async fn delivered(service: &Service, count: usize) {
    let sent = "SELECT count(*) FROM delivery WHERE status = 'sent'";
    eventually(SOON * 6, "all emails are sent", async || {
        (service.count(sent).await == i64::try_from(count).unwrap()).then_some(())
    })
    .await;
}

/// Returns the bytes of each kind of stream, per send.
async fn bytes_per_send(service: &Service, sends: u64) -> BTreeMap<&'static str, u64> {
    let mut bytes = BTreeMap::new();
    for stream in StreamName::all(service.context.partitions) {
        let kind = match stream {
            StreamName::Send(_) => "SEND",
            StreamName::Job(..) => "JOB",
            StreamName::Inbox(_) => "INBOX",
            StreamName::Outcome => "OUTCOME",
        };
        *bytes.entry(kind).or_default() += service.context.log.state(stream).await.unwrap().bytes / sends;
    }
    bytes
}

/// Finds the row of `docs/deploy/sizing.md` that begins with this text, and returns the numbers of its other columns.
pub(super) fn listed(row: &str) -> Vec<u64> {
    let page = include_str!("../../../docs/deploy/sizing.md");
    let row = format!("| {row} |");
    let line = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row {row}"));
    line.split('|').skip(2).filter_map(|cell| cell.trim().parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_take_as_many_bytes_of_the_log_as_the_page_on_sizing_states() {
    const SENDS: usize = 200;
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let _mailbox = Mailbox::start(&service, &shop).await;
    let message = "x".repeat(80);
    // One at a time, so that no messages are combined: a light load needs most bytes for each send.
    for user in 0..SENDS {
        accept(&service, &shop, user, &message).await;
        delivered(&service, user + 1).await;
    }
    let measured = bytes_per_send(&service, SENDS as u64).await;
    println!("bytes per send in the log: {measured:?}");
    let in_order = ["SEND", "INBOX", "JOB", "OUTCOME"].map(|kind| measured[kind]);
    let stated = listed("bytes of a send in the log, to the inbox and by email");
    assert_eq!(stated.len(), in_order.len());
    for (measured, stated) in in_order.iter().zip(&stated) {
        let near = stated * 85 / 100..=stated * 115 / 100;
        assert!(near.contains(measured), "measured {in_order:?}, stated {stated:?}");
    }
}
