//! Suppression of dead targets.

use std::collections::BTreeSet;

use crate::record::{ProviderView, Record, Target};

/// No claim of a delivery is granted after the suppression of its target was committed.
pub(crate) fn no_claim_after_a_suppression(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.deliveries {
        let Some(suppression) = record.suppressions.get(&delivery.target) else {
            continue;
        };
        let Some(committed_by) = suppression.committed_by else {
            wrong.push(format!("{:?} is suppressed, but the log has no event about it", delivery.target));
            continue;
        };
        if let Some(at) = delivery.claimed_at.iter().find(|at| **at > committed_by) {
            wrong.push(format!("{id} was claimed at {at}, but its target was suppressed by {committed_by}"));
        }
        if delivery.attempts.len() > delivery.claimed_at.len() {
            wrong.push(format!("{id} has attempts without a claim: {delivery:?}"));
        }
    }
    wrong
}

pub(crate) fn exactly_the_dead_targets(record: &Record) -> Vec<String> {
    let dead: BTreeSet<Target> = record.providers.values().flat_map(ProviderView::gone).collect();
    let suppressed: BTreeSet<Target> = record.suppressions.keys().cloned().collect();
    let alive = suppressed.difference(&dead).map(|target| format!("{target:?} is not dead, but suppressed"));
    let forgotten =
        dead.difference(&suppressed).map(|target| format!("{target:?} is dead, but not suppressed"));
    alive.chain(forgotten).collect()
}
