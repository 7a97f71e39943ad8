//! Plans of chunks, and what follows from them: delivery ids, jobs and claims.

use std::collections::BTreeMap;

use domain::{Channel, DeliveryId, DeliveryIds, SendId, UserNumber};

use crate::record::Record;

/// No chunk was planned twice. A user has at most one email address, phone number and browser, and one push token per push
/// service. If a recipient of a send has two deliveries of the same kind, there were two plans with different targets.
pub(crate) fn a_chunk_is_planned_once(record: &Record) -> Vec<String> {
    let mut targets: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for delivery in record.tables.deliveries.values() {
        let kind = match delivery.channel {
            Channel::MobilePush => delivery.target.split(':').next(),
            _ => None,
        };
        let key = (delivery.send, delivery.index, delivery.channel, kind);
        targets.entry(key).or_default().push(&delivery.target);
    }
    let twice = targets.into_iter().filter(|(_, targets)| targets.len() > 1);
    twice.map(|((send, index, ..), targets)| format!("{send}, recipient {index}: {targets:?}")).collect()
}

pub(crate) fn delivery_ids_are_derived(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        let (send, user) = (SendId(delivery.send), UserNumber(delivery.user));
        let derived = DeliveryIds::of(DeliveryId(*id)).derive(send, user, delivery.channel, &delivery.target);
        if derived.0 != *id {
            wrong.push(format!("{id} should have the id {derived}: {delivery:?}"));
        }
    }
    wrong
}

/// For every attempt, the log has a job with the same number. The numbers of a delivery's attempts have no gaps.
pub(crate) fn every_attempt_has_a_job(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        for (attempt, number) in delivery.attempts.iter().zip(1..) {
            if attempt.number != number || !record.log.jobs.contains(&(*id, attempt.number)) {
                wrong.push(format!(
                    "{id}: attempt {} has no job, or follows a gap: {delivery:?}",
                    attempt.number
                ));
            }
        }
    }
    wrong
}

/// An attempt may be claimed more than once. Only the worker with the latest claim may record it, so the recorded attempt must
/// not have started before that claim.
pub(crate) fn only_the_last_claim_settles(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.tables.deliveries {
        for attempt in &delivery.attempts {
            let claims = delivery.claims.iter().filter(|claim| claim.attempt == attempt.number);
            let last = claims.map(|claim| claim.at).max();
            if last.is_none_or(|at| at > attempt.started_at) {
                wrong.push(format!(
                    "{id}: attempt {} began before its last claim at {last:?}: {delivery:?}",
                    attempt.number
                ));
            }
        }
    }
    wrong
}
