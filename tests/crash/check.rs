//! What has to hold of a run, each by its name.

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

pub(crate) use accepted::repeats;
pub(crate) use latency::{beside_a_flood, percentile_of_small_apps};

use crate::record::Record;

/// Says what is wrong, one line each.
type Check = fn(&Record) -> Vec<String>;

pub(crate) const SMALL_APPS_DO_NOT_WAIT: &str = "small apps do not wait for the large one";

/// Violations that are shown of each check.
const SHOWN: usize = 5;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("every confirmed send is in the log", sends::every_confirmed_send_is_in_the_log),
    ("every confirmed send has ended for every recipient", final_status::every_confirmed_send_has_ended),
    ("the API reports how every send ended", api::tells_how_every_send_ended),
    ("nothing was sent that no client asked for", sends::nothing_unasked),
    ("a repeated request is the same send", sends::a_repeat_is_the_same),
    ("no client got an unexpected status", sends::no_client_got_an_unexpected_status),
    ("every inbox has its items once", inboxes::every_inbox_has_its_items_once),
    ("every counter equals a recount", inboxes::every_counter_is_right),
    ("the log alone gives the same inboxes", inboxes::the_log_gives_the_same),
    ("tidings verify finds the inboxes equal", inboxes::tidings_verify_finds_them_equal),
    ("no list contradicts an earlier response", changes::no_list_denies_what_was_answered),
    ("every accepted change was made", changes::every_change_came_true),
    ("a chunk is planned once", plans::a_chunk_is_planned_once),
    ("delivery ids are deterministic", plans::delivery_ids_are_derived),
    ("every attempt has its job in the log", plans::every_attempt_was_ordered),
    ("only the last claim settles", plans::only_the_last_claim_settles),
    ("the ledger agrees with what providers accepted", accepted::what_is_sent_was_taken),
    ("nothing is accepted twice unless a fault explains it", accepted::twice_only_by_a_fault),
    ("no SMS is accepted twice", accepted::no_short_message_twice),
    ("no suppressed target is claimed", suppressions::no_suppressed_target_is_claimed),
    ("checkpoints only grow, to the end of the log", checkpoints::only_grow),
    ("the log agrees with the ledger", outcome_events::the_log_agrees),
    ("webhooks report how every delivery ended, and what was read", webhooks::tell_everything),
    ("webhooks of a delivery come in order, each under one id", webhooks::come_in_order),
    ("no message was dead-lettered", outcome_events::no_message_was_dead_lettered),
    (SMALL_APPS_DO_NOT_WAIT, latency::small_apps_do_not_wait),
    ("the system was idle while it was checked", nothing_went_on),
];

/// They hold places against each other that are looked at one after the other. Of a system that goes on they say nothing.
const OF_THE_QUIET: [&str; 8] = [
    "the API reports how every send ended",
    "every inbox has its items once",
    "the log alone gives the same inboxes",
    "every accepted change was made",
    "the ledger agrees with what providers accepted",
    "no suppressed target is claimed",
    "the log agrees with the ledger",
    "webhooks report how every delivery ended, and what was read",
];

/// The checks that have a verdict on the run.
pub(crate) fn applying(record: &Record) -> impl Iterator<Item = &'static (&'static str, Check)> {
    let goes_on = record.meanwhile > 0;
    let undecided = undecided(record);
    CHECKS
        .iter()
        .filter(move |(name, _)| !(undecided.contains_key(name) || goes_on && OF_THE_QUIET.contains(name)))
}

/// The checks that have too little evidence for a verdict, each with the reason. Neither held nor broken.
pub(crate) fn undecided(record: &Record) -> BTreeMap<&'static str, String> {
    latency::cannot_tell(record).map(|reason| (SMALL_APPS_DO_NOT_WAIT, reason)).into_iter().collect()
}

/// The checks that fail, each with what is wrong.
pub(crate) fn failures(record: &Record) -> BTreeMap<&'static str, Vec<String>> {
    let failed = applying(record).map(|(name, check)| (*name, check(record)));
    failed.filter(|(_, violations)| !violations.is_empty()).collect()
}

/// The system had come to rest: else it is known only that it had not.
fn nothing_went_on(record: &Record) -> Vec<String> {
    let went_on = record.meanwhile > 0;
    went_on.then(|| format!("the log took {} messages", record.meanwhile)).into_iter().collect()
}

/// For people, some violations of each check.
pub(crate) fn describe(failures: &BTreeMap<&'static str, Vec<String>>) -> String {
    let mut text = String::new();
    for (name, violations) in failures {
        text += &format!("\n{name}: {} times not so, such as:\n", violations.len());
        for violation in violations.iter().take(SHOWN) {
            text += &format!("  {violation}\n");
        }
    }
    text
}
