//! The checks of a run. Each has a name and returns the violations that it finds in the record of the run.

mod accepted;
mod api;
mod changes;
mod checkpoints;
mod final_status;
mod inboxes;
mod latency;
mod model;
mod outcome_events;
mod plans;
mod sends;
mod suppressions;
mod webhooks;

use std::collections::BTreeMap;

use suite::check::{self, Failures};

pub(crate) use accepted::repeats;
pub(crate) use latency::{beside_a_flood, percentile_of_small_apps};

use crate::record::Record;

type Check = check::Check<Record>;

pub(crate) const SMALL_APPS_DO_NOT_WAIT: &str = "small apps do not wait for the large one";

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("every confirmed send is in the log", sends::every_confirmed_send_is_in_the_log),
    ("every confirmed send has ended for every recipient", final_status::every_confirmed_send_has_ended),
    ("the API reports how every send ended", api::every_send_is_reported),
    ("nothing was sent that no client asked for", sends::nothing_was_unrequested),
    ("a repeated request is the same send", sends::a_repeat_is_the_same_send),
    ("no client got an unexpected status", sends::no_client_got_an_unexpected_status),
    ("every inbox has its items once", inboxes::every_inbox_has_its_items_once),
    ("every counter equals a recount", inboxes::every_counter_is_right),
    ("the log alone gives the same inboxes", inboxes::the_log_gives_the_same_inboxes),
    ("tidings verify finds the inboxes equal", inboxes::tidings_verify_finds_them_equal),
    ("no list contradicts an earlier response", changes::no_list_contradicts_a_response),
    ("every accepted change was made", changes::every_accepted_change_was_made),
    ("a chunk is planned once", plans::a_chunk_is_planned_once),
    ("delivery ids are deterministic", plans::delivery_ids_are_derived),
    ("every attempt has its job in the log", plans::every_attempt_has_a_job),
    ("only the last claim settles", plans::only_the_last_claim_settles),
    ("the ledger agrees with what providers accepted", accepted::the_ledger_agrees),
    ("nothing is accepted twice unless a fault explains it", accepted::a_fault_explains_every_repeat),
    ("no SMS is accepted twice", accepted::no_short_message_twice),
    ("no delivery to a suppressed target is claimed", suppressions::no_suppressed_target_is_claimed),
    ("checkpoints only grow, to the end of the log", checkpoints::only_grow),
    ("the log agrees with the ledger", outcome_events::the_log_agrees),
    ("webhooks report how every delivery ended, and what was read", webhooks::everything_is_reported),
    ("webhooks of a delivery come in order, each under one id", webhooks::each_delivery_is_in_order),
    ("no message was dead-lettered", outcome_events::no_message_was_dead_lettered),
    (SMALL_APPS_DO_NOT_WAIT, latency::small_apps_do_not_wait),
    ("the system was idle while it was checked", the_system_was_idle),
];

/// Checks that compare two sources, such as the API and the tables, which are read one after the other. They are left out if the
/// log grew between the two reads.
const OF_IDLE_SYSTEM: [&str; 8] = [
    "the API reports how every send ended",
    "every inbox has its items once",
    "the log alone gives the same inboxes",
    "every accepted change was made",
    "the ledger agrees with what providers accepted",
    "no delivery to a suppressed target is claimed",
    "the log agrees with the ledger",
    "webhooks report how every delivery ended, and what was read",
];

/// Checks that apply to this record: all except the undecided ones and, if the log grew, those of [`OF_IDLE_SYSTEM`].
pub(crate) fn applying(record: &Record) -> impl Iterator<Item = &'static (&'static str, Check)> {
    let log_grew = record.meanwhile > 0;
    let undecided = undecided(record);
    CHECKS
        .iter()
        .filter(move |(name, _)| !(undecided.contains_key(name) || log_grew && OF_IDLE_SYSTEM.contains(name)))
}

/// Checks for which the record has too little data to pass or fail, each with the reason.
pub(crate) fn undecided(record: &Record) -> BTreeMap<&'static str, String> {
    latency::reason_undecided(record).map(|reason| (SMALL_APPS_DO_NOT_WAIT, reason)).into_iter().collect()
}

pub(crate) fn failures(record: &Record) -> Failures {
    check::failures(applying(record), record)
}

/// No message was added to the log while the record was assembled.
fn the_system_was_idle(record: &Record) -> Vec<String> {
    let log_grew = record.meanwhile > 0;
    log_grew.then(|| format!("{} messages were added to the log", record.meanwhile)).into_iter().collect()
}
