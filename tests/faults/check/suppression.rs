//! Suppression of dead targets.

use std::collections::BTreeSet;

use crate::record::{Attempt, Delivery, ProviderView, Record, Target};

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

/// Every target that is dead according to an answer is suppressed, and no other target is. An answer that was lost with a connection
/// of several calls suppresses nothing.
pub(crate) fn exactly_the_dead_targets(record: &Record) -> Vec<String> {
    let dead: BTreeSet<Target> = record.providers.values().flat_map(ProviderView::gone).collect();
    let known: BTreeSet<Target> =
        record.providers.iter().flat_map(|seen| known_as_dead(record, seen)).collect();
    let suppressed: BTreeSet<Target> = record.suppressions.keys().cloned().collect();
    let alive = suppressed.difference(&dead).map(|target| format!("{target:?} is not dead, but suppressed"));
    let forgotten =
        known.difference(&suppressed).map(|target| format!("{target:?} is dead, but not suppressed"));
    alive.chain(forgotten).collect()
}

/// Returns the targets that the provider reported as dead. If its calls share connections, an attempt must have received the answer.
fn known_as_dead(record: &Record, (name, seen): (&String, &ProviderView)) -> BTreeSet<Target> {
    if !seen.multiplexed {
        return seen.gone();
    }
    let received = |delivery: &&Delivery| {
        let is_answer =
            |attempt: &Attempt| attempt.provider.as_ref() == Some(name) && attempt.code == seen.codes.gone;
        delivery.attempts.iter().any(is_answer)
    };
    let targets = record.deliveries.values().filter(received).map(|delivery| delivery.target.clone());
    targets.collect::<BTreeSet<_>>().intersection(&seen.gone()).cloned().collect()
}
