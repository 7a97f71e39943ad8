//! The checks of a round. Each has a name and returns the violations that it finds in the record of the round.

mod accepted;
mod calls;
mod failover;
mod final_status;
mod outcome_events;
mod suppression;

use suite::check::{self, Failures};

use crate::record::Record;

type Check = check::Check<Record>;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("every delivery has a final status", final_status::every_delivery_has_ended),
    (
        "every final status follows from the attempts",
        final_status::every_final_status_follows_from_the_attempts,
    ),
    ("every attempt matches the provider's answers", calls::every_attempt_matches_its_provider),
    ("no claim after a suppression", suppression::no_claim_after_a_suppression),
    ("exactly the dead targets are suppressed", suppression::exactly_the_dead_targets),
    ("nothing is accepted twice without a fault", accepted::nothing_twice_without_a_fault),
    ("no SMS is accepted twice", accepted::no_short_message_twice),
    ("the ledger agrees with what providers accepted", accepted::the_ledger_agrees),
    ("failover only after a definite failure", failover::only_after_a_definite_failure),
    ("the log agrees with the ledger", outcome_events::the_log_agrees),
    ("the counts of requests add up", outcome_events::the_counts_add_up),
];

pub(crate) fn failures(record: &Record) -> Failures {
    check::failures(CHECKS, record)
}

/// # Panics
/// A check has found violations.
pub(crate) fn pass(record: &Record) {
    let failures = failures(record);
    assert!(failures.is_empty(), "{}", check::describe(&failures));
}

/// Without faults, the first call of every delivery succeeds.
pub(crate) fn nothing_went_wrong(record: &Record) {
    for (id, delivery) in &record.deliveries {
        let calls = delivery.attempts.iter().filter(|attempt| !attempt.was_not_made()).count();
        let first_time = delivery.status == "sent" && calls == 1;
        assert!(first_time, "{id}: {delivery:?}");
    }
}
