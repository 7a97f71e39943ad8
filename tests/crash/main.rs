//! The promise under kill -9: sends go on while every part is killed and started again, and afterwards every confirmed
//! send is in every inbox exactly once, and every email went out under one Message-ID.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod api;
mod emails;
mod faults;
mod inboxes;
mod journal;
mod ledger;
mod quiet;
mod send;
mod system;

use tokio::sync::watch;

use crate::journal::Journal;
use crate::send::{RECIPIENTS, SENDS, USERS};
use crate::system::System;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_confirmed_is_lost_or_doubled_whatever_is_killed() {
    let mut system = System::start().await;
    system.api.create_users().await;
    let (confirmed, progress) = watch::channel(0);
    let api = system.api.clone();
    let (journal, faults) =
        tokio::join!(Journal::of_all_sends(&api, &confirmed), faults::strike(&mut system, &progress));
    quiet::wait_until(&mut system).await;

    journal.holds_when_repeated(&api).await;
    inboxes::hold_what_was_sent(&api).await;
    let deliveries = ledger::agrees(&system, &journal).await;
    let emails = emails::agree_with(&deliveries, &system.outbox.captures());
    println!(
        "sends {SENDS}, confirmed {}, attempts {}, recipients {RECIPIENTS} each of {USERS} users, inbox items {}",
        journal.confirmed(),
        journal.attempts,
        SENDS * RECIPIENTS,
    );
    println!("kill -9: {}", faults.join(", "));
    println!(
        "deliveries {}, emails captured {}, of them repeats {} (of {} deliveries)",
        deliveries.len(),
        emails.captures,
        emails.captures - deliveries.len(),
        emails.repeated_deliveries,
    );
}
