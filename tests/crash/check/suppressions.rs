//! Suppressed targets.

use crate::record::Record;

/// No claim is granted after the suppression of its target is committed.
pub(crate) fn no_suppressed_target_is_claimed(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        let late = delivery.claims.iter().filter(|claim| claim.is_late);
        wrong.extend(late.map(|claim| format!("{id}: {} was suppressed before {claim:?}", delivery.target)));
    }
    let unreported = record.tables.suppressions.iter().filter(|(_, suppression)| !suppression.is_in_log);
    wrong.extend(
        unreported.map(|(target, _)| format!("the log has no event about the suppressed target {target:?}")),
    );
    wrong
}
