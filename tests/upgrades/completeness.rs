//! Checks after an upgrade under load: nothing is lost, and nothing is sent or shown twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;
use suite::numbered_send::{title, title_in};
use testkit::eventually;

use crate::audience::{Audience, Message, recipients};
use crate::load::Journal;
use crate::system::System;

const SOON: Duration = Duration::from_secs(240);

/// Compares inboxes, providers and webhooks with the answers in the journal.
///
/// # Panics
/// Something is missing, or happened twice.
pub(crate) async fn check(system: &System, audience: &Audience, journal: &Journal) {
    println!("{} sends, {} notifications marked as read", journal.sends.len(), journal.read.len());
    let messages: Vec<Message> = journal.sends.keys().flat_map(|&send| audience.messages(send)).collect();
    all_is_settled(&system.database, journal, messages.len()).await;
    every_inbox_has_all_sends(&system.database, journal).await;
    read_items_stay_read(&system.database, journal).await;
    every_provider_accepted_everything_once(system, &messages);
    the_backend_receives_every_webhook(system, journal).await;
}

/// Waits until all messages are sent, all items are shown, and no other work is left. The time limit is shorter than
/// every lease and `ack_wait`, so the test fails if a stopping process leaves work that other processes can continue
/// only after these expire.
async fn all_is_settled(database: &PgPool, journal: &Journal, messages: usize) {
    let items: usize = journal.sends.keys().map(|&send| recipients(send).len()).sum();
    let wanted = (i64::try_from(messages).unwrap(), i64::try_from(items).unwrap());
    let what = format!("the numbers of sent deliveries and of items are {wanted:?}, and no work is left");
    eventually(SOON, &what, async || {
        let settled: (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM delivery WHERE status = 'sent'), (SELECT count(*) FROM inbox_item)",
        )
        .fetch_one(database)
        .await
        .unwrap();
        // Unsent deliveries, timers and parked messages. A timer is deleted only after its message is published.
        let left: (i64, i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM delivery WHERE status <> 'sent'), (SELECT count(*) FROM timer),
                    (SELECT count(*) FROM parked)",
        )
        .fetch_one(database)
        .await
        .unwrap();
        (settled == wanted && left == (0, 0, 0)).then_some(())
    })
    .await;
}

async fn every_inbox_has_all_sends(database: &PgPool, journal: &Journal) {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT identifier, content->>'title', send_id::text FROM inbox_item
         JOIN app_user ON (app_user.app_id, number) = (inbox_item.app_id, user_number)",
    )
    .fetch_all(database)
    .await
    .unwrap();
    let mut shown = rows;
    shown.sort_unstable();
    let promised = journal.sends.iter().flat_map(|(&send, request)| {
        let people = recipients(send).into_iter();
        people.map(move |person| (person.identifier(), title(send), request.clone()))
    });
    let mut promised: Vec<_> = promised.collect();
    promised.sort_unstable();
    assert!(shown == promised, "{} items are shown, {} were sent", shown.len(), promised.len());
}

async fn read_items_stay_read(database: &PgPool, journal: &Journal) {
    let unread: Vec<String> = sqlx::query_scalar("SELECT id::text FROM inbox_item WHERE clicked_at IS NULL")
        .fetch_all(database)
        .await
        .unwrap();
    let denied: Vec<_> = unread.iter().filter(|id| journal.read.contains(*id)).collect();
    assert_eq!(denied, Vec::<&String>::new());
    assert!(journal.read.len() > 10);
}

fn every_provider_accepted_everything_once(system: &System, messages: &[Message]) {
    let mut taken: BTreeMap<Message, usize> = BTreeMap::new();
    for capture in system.providers.outbox.captures() {
        let message = (capture.channel.clone(), capture.to[0].clone(), title_in(&capture));
        *taken.entry(message).or_default() += 1;
    }
    let promised: BTreeMap<_, _> = messages.iter().map(|message| (message.clone(), 1)).collect();
    let differing: Vec<_> =
        taken.iter().filter(|(message, times)| promised.get(*message) != Some(times)).collect();
    assert!(differing.is_empty(), "not accepted exactly once: {differing:?}");
    assert_eq!(taken.len(), promised.len());
}

/// The backend receives one webhook for every delivery and every item that was marked as read. Repeated calls of a webhook count
/// once.
async fn the_backend_receives_every_webhook(system: &System, journal: &Journal) {
    let backend = &system.backend;
    let sent: Vec<(String, String, String, String)> = sqlx::query_as(
        "SELECT delivery.id::text, send_id::text, identifier, channel FROM delivery
         JOIN app_user ON (app_user.app_id, number) = (delivery.app_id, user_number) ORDER BY 1",
    )
    .fetch_all(&system.database)
    .await
    .unwrap();
    let wanted = sent.len() + journal.read.len();
    let reported = eventually(SOON, &format!("the backend receives {wanted} webhooks"), async || {
        let received = backend.received();
        (received.len() >= wanted).then_some(received)
    })
    .await;
    let (read, outcomes): (Vec<_>, Vec<_>) =
        reported.iter().map(|reported| &reported.body).partition(|body| body["type"] == "notification.read");
    assert!(outcomes.iter().all(|body| body["type"] == "delivery.sent"), "no delivery failed");
    let text = |body: &Value, member: &str| body["data"][member].as_str().unwrap().to_owned();
    let tell =
        |body: &&Value| ["deliveryId", "requestId", "recipient", "channel"].map(|member| text(body, member));
    let mut outcomes: Vec<_> =
        outcomes.iter().map(tell).map(<(String, String, String, String)>::from).collect();
    outcomes.sort_unstable();
    assert!(outcomes == sent, "{} webhooks about {} sent deliveries", outcomes.len(), sent.len());
    let read: Vec<_> = read.iter().map(|body| body["data"]["notificationId"].to_string()).collect();
    let distinct: BTreeSet<_> = read.iter().cloned().collect();
    assert_eq!((distinct, read.len()), (journal.read.clone(), journal.read.len()));
    assert_eq!(backend.refused(), Vec::<&str>::new());
    println!("{} calls for {wanted} webhooks", backend.attempts().len());
}
