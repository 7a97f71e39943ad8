//! The checks of a run. Each has a name and returns the violations that it finds in the record of the run. A check holds, is broken,
//! or has too little to judge by.

mod accepted;
mod api;
mod changes;
mod checkpoints;
mod final_status;
mod finished;
mod inboxes;
mod latency;
mod model;
mod outcome_events;
mod plans;
mod poison;
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
pub(crate) const ALL_WORK_IS_DONE: &str = "all work is done within two minutes";
pub(crate) const NO_LIST_CONTRADICTS: &str = "no list contradicts an earlier response";

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
    (NO_LIST_CONTRADICTS, changes::no_list_contradicts_a_response),
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
    ("a send that ends processes is parked, and nothing else is", poison::only_the_poison_is_parked),
    (SMALL_APPS_DO_NOT_WAIT, latency::small_apps_do_not_wait),
    (ALL_WORK_IS_DONE, finished::all_work_is_done),
    ("the system was idle while it was checked", the_system_was_idle),
];

/// Checks that compare two sources, such as the API and the tables. The sources are read one after the other, so these checks cannot
/// judge if the log grew in between. [`the_system_was_idle`] then fails, so that the run does not pass without them.
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

/// Results of all checks. Each check is in one of the three lists.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) held: Vec<&'static str>,
    pub(crate) broken: Failures,
    /// Checks that had too little to judge by, each with the numbers.
    pub(crate) undecided: BTreeMap<&'static str, String>,
}

/// Runs all checks. `too_few` lists checks that would hold, but for which too little happened in the run.
pub(crate) fn results(record: &Record, too_few: &BTreeMap<&'static str, String>) -> Results {
    let broken = failures(record);
    let mut undecided = undecided(record);
    let held = |name: &&str| !broken.contains_key(name) && !undecided.contains_key(name);
    let mut held: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).filter(held).collect();
    for (name, reason) in too_few {
        if let Some(place) = held.iter().position(|held| held == name) {
            undecided.insert(held.remove(place), reason.clone());
        }
    }
    Results { held, broken, undecided }
}

/// Checks that can judge this record.
pub(crate) fn applying(record: &Record) -> impl Iterator<Item = &'static (&'static str, Check)> {
    let undecided = undecided(record);
    CHECKS.iter().filter(move |(name, _)| !undecided.contains_key(name))
}

/// Checks for which the record has too little data to pass or fail, each with the reason.
pub(crate) fn undecided(record: &Record) -> BTreeMap<&'static str, String> {
    let mut undecided = BTreeMap::new();
    if record.meanwhile > 0 {
        let grew = format!("{} messages were added to the log while it was read", record.meanwhile);
        undecided.extend(OF_IDLE_SYSTEM.map(|name| (name, grew.clone())));
    }
    undecided.extend(latency::reason_undecided(record).map(|reason| (SMALL_APPS_DO_NOT_WAIT, reason)));
    undecided.extend(finished::reason_undecided(record).map(|reason| (ALL_WORK_IS_DONE, reason)));
    undecided
}

pub(crate) fn failures(record: &Record) -> Failures {
    check::failures(applying(record), record)
}

/// No message was added to the log while the record was assembled.
fn the_system_was_idle(record: &Record) -> Vec<String> {
    let log_grew = record.meanwhile > 0;
    log_grew.then(|| format!("{} messages were added to the log", record.meanwhile)).into_iter().collect()
}
