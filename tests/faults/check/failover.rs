//! Failover.

use crate::record::{Attempt, Record};

/// After an attempt with an unknown outcome, all later attempts call the same provider.
pub(crate) fn only_after_a_definite_failure(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.deliveries {
        let mut bound: Option<&Attempt> = None;
        for attempt in &delivery.attempts {
            if let Some(earlier) = bound
                && earlier.provider != attempt.provider
            {
                wrong.push(format!("{id}: attempt {} is at another provider: {delivery:?}", attempt.number));
            }
            if attempt.outcome == "unknown" {
                bound = Some(attempt);
            }
        }
    }
    wrong
}
