//! Targets that providers called dead.

use crate::record::Record;

/// Whoever looks once a suppression is committed is not given the right to call its target.
pub(crate) fn no_suppressed_target_is_claimed(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        let late = delivery.claims.iter().filter(|claim| claim.is_late);
        wrong.extend(late.map(|claim| format!("{id}: {} was suppressed before {claim:?}", delivery.target)));
    }
    let untold = record.tables.suppressions.iter().filter(|(_, suppression)| !suppression.is_told);
    wrong.extend(untold.map(|(target, _)| format!("nobody told that {target:?} is suppressed")));
    wrong
}
