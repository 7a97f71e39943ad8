//! Rehearsal of the loss of a database. A dump is taken under load, more load follows, and the database is lost. Then the dump is
//! restored, `tidings restore` reads the log again, and the services start. No accepted send is lost, and no sent message is sent
//! again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backup;
mod check;
mod chunks;
mod installation;
mod load;
mod outcomes;
mod providers;
mod refusals;
mod system;

use crate::check::Aftermath;
use crate::load::Load;
use crate::outcomes::Outcomes;
use crate::system::System;

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_taken_under_load_is_restored_and_nothing_is_lost_or_sent_again() {
    let mut system = System::start().await;
    let mut load = Load::begin(&system).await;
    load.send(&system, 40).await;
    system.is_marked().await;

    // Dump while sends are being made, so that the snapshot contains only some of them.
    let dump = tokio::join!(backup::dump(&system), load.send(&system, 80)).0;
    load.lose_fans(&system).await;
    load.send(&system, 40).await;
    load.erase_and_cancel(&system).await;
    load.send(&system, 40).await;
    load.await_sends_to_fans(&system).await;
    outcomes::await_recorded_outcomes(&system, &load).await;

    let before = check::LostState::of(&system).await;
    system.kill_services();
    let outcomes = Outcomes::read(&system).await;
    system.lose_the_database(&dump).await;
    system.services_refuse_to_start();
    println!("{}", backup::restore(&system).await);
    system.start_services().await;
    system.idle().await;

    let aftermath = Aftermath { system: &system, load: &load, before: &before, outcomes: &outcomes };
    aftermath.keys_belong_to_the_same_sends().await;
    system.idle().await;
    let aftermath = Aftermath { system: &system, load: &load, before: &before, outcomes: &outcomes };
    aftermath.every_send_has_ended().await;
    aftermath.numbers_belong_to_the_same_users().await;
    aftermath.inboxes_hold_each_notice_once().await;
    aftermath.nothing_was_sent_again().await;
    aftermath.erasures_and_cancellations_persist().await;
    println!("{} sends; {}", load.sends.len(), aftermath.summary().await);
}
