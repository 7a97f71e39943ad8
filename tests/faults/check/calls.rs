//! Comparison of attempts with the calls that providers received. A call contains its target but not always the delivery's id, so
//! attempts and calls are compared per target.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::Timestamp;
use stand_ins::faults::{Call, Fault};

use crate::providers::TIMEOUT;
use crate::record::{Attempt, Codes, ProviderView, Record, Target};

/// Result of a call, in as much detail as both the worker and the provider know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Sent,
    Temporary,
    Busy,
    Gone,
    Down,
    /// The worker received no answer.
    Lost,
}

type Numbers = BTreeMap<End, usize>;

/// Maximum time until a worker notices that a multiplexed connection was cut. Calls that it starts in this time are lost too.
const UNNOTICED: Duration = Duration::from_secs(1);

pub(crate) fn every_attempt_matches_its_provider(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut attempts: BTreeMap<&str, BTreeMap<&Target, Vec<&Attempt>>> = BTreeMap::new();
    for (id, delivery) in &record.deliveries {
        for attempt in &delivery.attempts {
            let Some(provider) = attempt.provider.as_deref() else {
                wrong.push(format!("{id}: an attempt has no provider: {delivery:?}"));
                continue;
            };
            if attempt.was_not_made() {
                continue;
            }
            if attempt.found_gone() && record.suppressions.contains_key(&delivery.target) {
                continue;
            }
            attempts.entry(provider).or_default().entry(&delivery.target).or_default().push(attempt);
        }
    }
    for (name, seen) in &record.providers {
        let attempts = attempts.remove(name.as_str()).unwrap_or_default();
        wrong.extend(compare(seen, &attempts).into_iter().map(|what| format!("{name}: {what}")));
    }
    wrong.extend(attempts.keys().map(|name| format!("attempts at the unknown provider {name}")));
    wrong
}

fn compare(seen: &ProviderView, attempts: &BTreeMap<&Target, Vec<&Attempt>>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut calls: BTreeMap<Target, Vec<&Call>> = BTreeMap::new();
    for call in &seen.calls {
        calls.entry(seen.target(&call.target)).or_default().push(call);
    }
    let targets = calls.keys().chain(attempts.keys().copied());
    let targets: BTreeSet<&Target> = targets.collect();
    let cuts: Vec<Timestamp> =
        seen.calls.iter().filter(|call| call.fault.is_some_and(Fault::is_cut)).map(|call| call.at).collect();
    for target in targets {
        let calls = calls.get(target).map(Vec::as_slice).unwrap_or_default();
        let attempts = attempts.get(target).map(Vec::as_slice).unwrap_or_default();
        if let Err(why) = agree(seen, &cuts, calls, attempts) {
            wrong.push(format!("{target:?}: {why}\n    calls {calls:?}\n    attempts {attempts:?}"));
        }
    }
    wrong
}

fn agree(
    seen: &ProviderView,
    cuts: &[Timestamp],
    calls: &[&Call],
    attempts: &[&Attempt],
) -> Result<(), String> {
    let (mut at_provider, mut at_caller) = (Numbers::new(), Numbers::new());
    for call in calls {
        *at_provider.entry(end_of_call(call)).or_default() += 1;
    }
    for attempt in attempts {
        let end = end_of_attempt(&seen.codes, attempt).ok_or_else(|| format!("unexpected: {attempt:?}"))?;
        *at_caller.entry(end).or_default() += 1;
        let unnoticed = if seen.multiplexed { UNNOTICED } else { Duration::ZERO };
        // A call that timed out had met the cut when it started, not at some time until its limit.
        let last = if attempt.code == TIMEOUT { attempt.started_at + unnoticed } else { attempt.ended_at };
        let during = |at: Timestamp| attempt.started_at <= at + unnoticed && at <= last;
        let is_cut_short = end == End::Lost || lacks_the_text(&seen.codes, attempt);
        if is_cut_short && !cuts.iter().copied().any(during) {
            return Err(format!("no connection was cut during this lost attempt: {attempt:?}"));
        }
        let while_down = |(from, until)| attempt.started_at <= until && attempt.ended_at >= from;
        if end == End::Down && !seen.down.is_some_and(while_down) {
            return Err(format!("the provider was not down during this attempt: {attempt:?}"));
        }
    }
    let number = |of: &Numbers, end| of.get(&end).copied().unwrap_or_default();
    let lost = number(&at_caller, End::Lost);
    let mut unanswered = 0;
    for end in [End::Sent, End::Temporary, End::Busy, End::Gone] {
        let (called, heard) = (number(&at_provider, end), number(&at_caller, end));
        if heard > called {
            return Err(format!(
                "{heard} attempts have the result {end:?}, but the provider gave it {called} times"
            ));
        }
        unanswered += called - heard;
    }
    // If a multiplexed connection is cut, the answers to its other calls are lost too.
    if unanswered > if seen.multiplexed { lost } else { 0 } {
        return Err(format!("{unanswered} answers of the provider are missing from the attempts"));
    }
    let taken_and_cut = calls.iter().filter(|call| call.fault == Some(Fault::CutAfter)).count();
    if lost < taken_and_cut {
        return Err(format!(
            "{taken_and_cut} calls were accepted and cut, but only {lost} attempts are lost"
        ));
    }
    Ok(())
}

fn end_of_call(call: &Call) -> End {
    match call.fault {
        None => End::Sent,
        Some(Fault::Temporary) => End::Temporary,
        Some(Fault::Busy) => End::Busy,
        Some(Fault::Gone) => End::Gone,
        Some(Fault::Down) => End::Down,
        Some(Fault::CutBefore | Fault::CutAfter | Fault::Stall) => End::Lost,
        Some(fault @ (Fault::Refused | Fault::Pause)) => {
            panic!("the fault {fault:?} is not used in this suite")
        }
    }
}

/// Returns the result of an attempt, or None if the provider never answers with this code.
fn end_of_attempt(codes: &Codes, attempt: &Attempt) -> Option<End> {
    let code = attempt.code.as_str();
    match attempt.outcome.as_str() {
        "sent" => Some(End::Sent),
        "target_gone" if code == codes.gone => Some(End::Gone),
        "retry" if code == codes.temporary => Some(End::Temporary),
        "retry" if code == codes.busy => Some(End::Busy),
        "retry" if codes.down.contains(&code) => Some(End::Down),
        "retry" | "unknown" if codes.lost.contains(&code) => Some(End::Lost),
        "retry" if is_status_of(codes.temporary, code) => Some(End::Temporary),
        "retry" if is_status_of(codes.busy, code) => Some(End::Busy),
        _ => None,
    }
}

/// Returns true if the attempt has the status of the answer but not its text, because the connection was cut after the status.
fn lacks_the_text(codes: &Codes, attempt: &Attempt) -> bool {
    [codes.temporary, codes.busy].iter().any(|whole| is_status_of(whole, &attempt.code))
}

fn is_status_of(whole: &str, code: &str) -> bool {
    whole.split_once(' ').is_some_and(|(status, _)| status == code)
}
