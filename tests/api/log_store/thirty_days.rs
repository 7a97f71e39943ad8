//! Thirty days of load. A day has 40 sends instead of a million, and store and streams are 25,000 times smaller than shipped.

use std::time::Duration;

use domain::StreamName;
use futures_util::future::join_all;
use service_kit::fullness::SENDS_STOP;
use suite::pace;
use testkit::eventually;

use crate::log_store::bytes_of_a_send::{accept, delivered, listed};
use crate::log_store::{fill, service_with_store};
use crate::mailbox::Mailbox;
use crate::service::{Backing, SOON, Service};

const DAYS: usize = 30;
const SENDS: usize = 40;
/// Sends that arrive together: those of a quarter of a day.
const TOGETHER: usize = 10;
/// Shortest time between them. Gateways look at the fill once per second, and must not count too many days in between.
const APART: Duration = Duration::from_millis(125);
const SCALE: i64 = 25_000;
/// Bytes of the shipped store (32 GB), scaled.
const STORE: u64 = 1_280_000;
/// Fill at which the janitor removes messages, whatever their age.
const CROWDED: f64 = 0.7;

/// Returns the bytes that all streams have ever held, by the average size of the messages that they hold now. Also returns how
/// many days the stream with the shortest past reaches back.
async fn published(service: &Service) -> (u64, u64) {
    let (mut bytes, mut days) = (0, u64::MAX);
    for stream in StreamName::all(service.context.partitions) {
        let state = service.context.log.state(stream).await.unwrap();
        bytes += state.bytes * state.last_seq / state.messages.max(1);
        if let Some(reach) = (state.messages * DAYS as u64).checked_div(state.last_seq) {
            days = days.min(reach);
        }
    }
    (bytes, days)
}

/// No message is as old as `streams.retention`, so the janitor removes messages only because the store fills up.
#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_store_needs_no_operator_in_thirty_days_of_a_million_sends() {
    assert!(include_str!("../../../deploy/compose/nats.conf").contains("max_file_store: 32GB"));
    let service = service_with_store(STORE, Backing::DispatcherAndInbox, |config| {
        // Tidings does not find the size of a store below 16 MiB.
        config.nats.max_store = STORE;
        config.nats.max_messages /= SCALE;
    })
    .await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    // Sends that arrive together share messages of the log, and need fewer bytes each. Longer content makes up for it.
    let message = "x".repeat(280);
    let (mut highest, mut part) = (0.0_f64, pace(APART));
    for sent in (0..DAYS * SENDS).step_by(TOGETHER) {
        part.tick().await;
        join_all((sent..sent + TOGETHER).map(|user| accept(&service, &shop, user, &message))).await;
        delivered(&service, sent + TOGETHER).await;
        highest = highest.max(fill(&service).await);
        let has_room = async || (fill(&service).await < CROWDED).then_some(());
        eventually(SOON, "the janitor has made room", has_room).await;
        // The quota of an app counts real days.
        service.run("DELETE FROM app_bytes").await;
    }
    let (bytes, days) = published(&service).await;
    let of_a_send = bytes / (DAYS * SENDS) as u64;
    println!(
        "{bytes} bytes in a store of {STORE}, {of_a_send} per send; highest fill {highest:.2}, {days} days"
    );
    assert_eq!(mailbox.recipients().len(), DAYS * SENDS);
    assert!((CROWDED..SENDS_STOP).contains(&highest), "{highest}");
    assert!(days >= 2, "a stream reaches back {days} days");
    let stated: u64 = listed("bytes of a send in the log, to the inbox and by email").iter().sum();
    assert!(of_a_send >= stated * 85 / 100, "{of_a_send} bytes per send, stated {stated}");
}
