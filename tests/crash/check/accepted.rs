//! Messages that providers accepted.

use std::collections::{BTreeMap, BTreeSet};

use domain::Channel;
use uuid::Uuid;

use crate::record::{Attempt, Claim, Delivery, Record};
use crate::scene::{Accepted, Fault};

/// A second acceptance of a delivery.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    pub(crate) delivery: Uuid,
    pub(crate) channel: Channel,
    pub(crate) first: i64,
    pub(crate) second: i64,
    /// Fault or unanswered attempt that explains the second acceptance.
    pub(crate) because: Option<String>,
}

fn by_delivery(record: &Record) -> BTreeMap<Uuid, Vec<&Accepted>> {
    let mut taken: BTreeMap<Uuid, Vec<&Accepted>> = BTreeMap::new();
    for accepted in &record.accepted {
        if let Ok(id) = accepted.delivery.parse() {
            taken.entry(id).or_default().push(accepted);
        }
    }
    taken
}

/// Target as the provider received it. In the ledger, push tokens of phones begin with `apns:` or `fcm:`.
fn bare_target(delivery: &Delivery) -> &str {
    let target = delivery.target.as_str();
    target.strip_prefix("apns:").or(target.strip_prefix("fcm:")).unwrap_or(target)
}

/// Every delivery with a `sent` attempt was accepted by a provider, and every message that a provider accepted is in the ledger.
pub(crate) fn the_ledger_agrees(record: &Record) -> Vec<String> {
    let taken = by_delivery(record);
    let mut wrong = Vec::new();
    for accepted in &record.accepted {
        let found = accepted.delivery.parse().ok().and_then(|id: Uuid| record.tables.deliveries.get(&id));
        let is_it = |delivery: &&Delivery| {
            delivery.channel == accepted.channel && bare_target(delivery) == accepted.target
        };
        if found.filter(is_it).is_none() {
            wrong.push(format!("accepted, but not in the ledger: {accepted:?}"));
        }
    }
    for (id, delivery) in &record.tables.deliveries {
        let is_sent = delivery.attempts.iter().any(|attempt| attempt.outcome == "sent");
        if is_sent && !taken.contains_key(id) {
            wrong.push(format!("{id} is sent, but no provider accepted it: {delivery:?}"));
        }
    }
    wrong
}

/// Returns each acceptance of a delivery after the first, by any provider.
pub(crate) fn repeats(record: &Record) -> Vec<Repeat> {
    let mut repeats = Vec::new();
    for (id, taken) in by_delivery(record).into_iter().filter(|(_, taken)| taken.len() > 1) {
        let delivery = record.tables.deliveries.get(&id);
        let attempts = delivery.map_or(&[][..], |delivery| &delivery.attempts);
        let mut explained = BTreeSet::new();
        for pair in taken.windows(2) {
            let (first, second, channel) = (pair[0].at, pair[1].at, pair[0].channel);
            // An attempt with an unknown outcome explains only one further acceptance. Any others must be explained by faults.
            let made_it = attempts.iter().rev().find(|attempt| attempt.started_at <= first);
            let unknown = made_it.filter(|made_it| is_unknown(made_it) && explained.insert(made_it.number));
            let because = match unknown {
                Some(attempt) => Some(format!("attempt {} was not answered", attempt.number)),
                None => fault(record, delivery, [pair[0], pair[1]]),
            };
            repeats.push(Repeat { delivery: id, channel, first, second, because });
        }
    }
    repeats
}

/// Returns true if the outcome of the attempt is unknown: the connection broke, or the call timed out.
fn is_unknown(attempt: &Attempt) -> bool {
    attempt.outcome == "unknown"
}

/// Finds a fault that explains the second of two acceptances. Either the worker could not record the first one: the fault is active
/// within a lease after it. Or a worker was paused between its claim and its call, and made the call when it was resumed, before or
/// after the call of the next claim: the pause is active within a lease after the earlier claim.
fn fault(record: &Record, delivery: Option<&Delivery>, pair: [&Accepted; 2]) -> Option<String> {
    let [first, second] = pair.map(|accepted| accepted.at);
    let lease = record.conditions.lease;
    let is_active = |fault: &Fault, from: i64| fault.from <= second.min(from + lease) && fault.until >= from;
    let faults = record.faults.iter().filter(|fault| can_prevent_recording(fault, pair[0].channel));
    // A stall pauses every worker. Shorter ones leave enough of the lease.
    let stalls = record.conditions.stalls.iter().filter(|stall| stall.until - stall.from >= lease / 3);
    let is_pause = |fault: &Fault| fault.what.starts_with("pause") || fault.what.contains("stalled");
    let claims = claims_without_an_answer(delivery, second);
    let explains = |fault: &&Fault| {
        is_active(fault, first) || is_pause(fault) && claims.iter().any(|claim| is_active(fault, claim.at))
    };
    let fault = faults.chain(stalls).find(explains);
    fault.map(|fault| format!("{} from {} until {}", fault.what, fault.from, fault.until))
}

/// Returns the claims after which the same attempt was claimed again, no later than `until`.
fn claims_without_an_answer(delivery: Option<&Delivery>, until: i64) -> Vec<&Claim> {
    let claims = delivery.map_or(&[][..], |delivery| &delivery.claims);
    let pairs = claims.windows(2).filter(|pair| pair[0].attempt == pair[1].attempt && pair[1].at <= until);
    pairs.map(|pair| &pair[0]).collect()
}

/// Returns true if the fault hit a worker of the channel, its connection to the database, or PostgreSQL. Faults of the broker do
/// not count: a redelivered job finds the claim in the ledger.
fn can_prevent_recording(fault: &Fault, channel: Channel) -> bool {
    let worker = match channel {
        Channel::Email => "email",
        Channel::WebPush => "web-push",
        Channel::MobilePush => "mobile-push",
        Channel::Sms => "sms",
        _ => return false,
    };
    let is_of_the_broker = fault.what.contains("withhold") || fault.what.contains("broker");
    (fault.what.contains(worker) || fault.what.contains("postgres")) && !is_of_the_broker
}

pub(crate) fn a_fault_explains_every_repeat(record: &Record) -> Vec<String> {
    let unexplained = repeats(record).into_iter().filter(|repeat| repeat.because.is_none());
    let reported =
        |repeat: Repeat| format!("{repeat:?} of {:?}", record.tables.deliveries.get(&repeat.delivery));
    unexplained.map(reported).collect()
}

pub(crate) fn no_short_message_twice(record: &Record) -> Vec<String> {
    let short = repeats(record).into_iter().filter(|repeat| repeat.channel == Channel::Sms);
    short.map(|repeat| format!("{repeat:?}")).collect()
}
