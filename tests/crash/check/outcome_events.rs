//! Outcome events of deliveries.

use std::collections::BTreeSet;

use domain::Status;

use crate::record::{Delivery, Outcome, Record};

/// Every final status has an event, possibly repeated, and there is no other event. An `unknown` may be corrected later. Another check
/// looks for deliveries without a final status.
pub(crate) fn the_log_agrees(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        let told = record.log.outcomes.get(id).map(Vec::as_slice).unwrap_or_default();
        let ends: BTreeSet<Status> =
            told.iter().map(|told| told.status).filter(|status| status.is_terminal()).collect();
        let is_told = ends.contains(&delivery.status) || !delivery.status.is_terminal();
        let is_denied = ends.iter().any(|status| *status != delivery.status && !is_provisional(*status));
        let is_behind =
            told.iter().any(|told| told.attempt > delivery.attempt || retries_after_end(told, delivery));
        if !is_told || is_denied || is_behind {
            wrong.push(format!("{id}: told {told:?}, it is {delivery:?}"));
        }
    }
    let known = &record.tables.deliveries;
    let foreign = record.log.outcomes.keys().filter(|id| !known.contains_key(*id));
    wrong.extend(foreign.map(|id| format!("{id} is told, and in no ledger")));
    wrong
}

/// A late answer or a receipt corrects the status.
fn is_provisional(status: Status) -> bool {
    matches!(status, Status::Unknown | Status::Cancelled | Status::Expired | Status::Skipped)
}

/// The event announces a retry of the attempt that ended the delivery.
fn retries_after_end(told: &Outcome, delivery: &Delivery) -> bool {
    told.status == Status::Retrying && told.attempt >= delivery.attempt && delivery.status != Status::Parked
}

/// No message failed for its own reasons.
pub(crate) fn no_message_was_dead_lettered(record: &Record) -> Vec<String> {
    record.tables.set_aside.clone()
}
