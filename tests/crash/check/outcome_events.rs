//! Outcome events of deliveries.

use std::collections::BTreeSet;

use domain::Status;

use crate::record::{Delivery, Outcome, Record};

/// Every final status has an event in the log, and no event contradicts the ledger. Events may be repeated, and later events may
/// correct a provisional status such as `unknown`. Another check finds deliveries without a final status.
pub(crate) fn the_log_agrees(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        let reported = record.log.outcomes.get(id).map(Vec::as_slice).unwrap_or_default();
        let ends: BTreeSet<Status> =
            reported.iter().map(|reported| reported.status).filter(|status| status.is_terminal()).collect();
        let is_in_log = ends.contains(&delivery.status) || !delivery.status.is_terminal();
        let conflicts = ends.iter().any(|status| *status != delivery.status && !is_provisional(*status));
        let is_behind = reported
            .iter()
            .any(|reported| reported.attempt > delivery.attempt || retries_after_end(reported, delivery));
        if !is_in_log || conflicts || is_behind {
            wrong.push(format!("{id}: the log holds {reported:?}, the ledger {delivery:?}"));
        }
    }
    let known = &record.tables.deliveries;
    let foreign = record.log.outcomes.keys().filter(|id| !known.contains_key(*id));
    wrong.extend(foreign.map(|id| format!("{id} is in the log, but not in the ledger")));
    wrong
}

/// Returns true if a late answer or a receipt can correct the status.
fn is_provisional(status: Status) -> bool {
    matches!(status, Status::Unknown | Status::Cancelled | Status::Expired | Status::Skipped)
}

/// Returns true if the event announces a retry after the attempt that ended the delivery.
fn retries_after_end(reported: &Outcome, delivery: &Delivery) -> bool {
    reported.status == Status::Retrying
        && reported.attempt >= delivery.attempt
        && delivery.status != Status::Parked
}

/// No message failed so often that it was dead-lettered.
pub(crate) fn no_message_was_dead_lettered(record: &Record) -> Vec<String> {
    record.tables.dead_letters.clone()
}
