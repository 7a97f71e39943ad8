//! Final status of deliveries.

use crate::record::{Attempt, Delivery, Record};

const LIVE: [&str; 3] = ["queued", "sending", "retrying"];

pub(crate) fn every_delivery_has_ended(record: &Record) -> Vec<String> {
    let live = record.deliveries.iter().filter(|(_, delivery)| LIVE.contains(&delivery.status.as_str()));
    live.map(|(id, delivery)| format!("{id} is {}", delivery.status)).collect()
}

pub(crate) fn every_final_status_follows_from_the_attempts(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.deliveries {
        if !in_order(&delivery.attempts) {
            wrong.push(format!("{id}: the attempts are not numbered 1, 2, …: {delivery:?}"));
        }
        let (earlier, last) = match delivery.attempts.split_last() {
            Some((last, earlier)) => (earlier, Some(last)),
            None => (&[][..], None),
        };
        if let Some(attempt) = earlier.iter().find(|attempt| is_final(record, delivery, attempt)) {
            wrong.push(format!(
                "{id}: further attempts follow the final attempt {}: {delivery:?}",
                attempt.number
            ));
        }
        if !status_fits(record, delivery, last) {
            wrong.push(format!("{id}: {delivery:?}"));
        }
    }
    wrong
}

fn in_order(attempts: &[Attempt]) -> bool {
    attempts.iter().zip(1..).all(|(attempt, number)| attempt.number == number)
}

/// Returns true if no further attempt may follow.
fn is_final(record: &Record, delivery: &Delivery, attempt: &Attempt) -> bool {
    match attempt.outcome.as_str() {
        "sent" | "failed" => true,
        // If a second provider was tried, the target may have been dead for the first provider only.
        "target_gone" => delivery.attempts.iter().all(|other| other.provider == attempt.provider),
        "unknown" => record.is_lost(delivery, attempt),
        _ => false,
    }
}

fn status_fits(record: &Record, delivery: &Delivery, last: Option<&Attempt>) -> bool {
    let end = (delivery.status.as_str(), delivery.reason.as_deref());
    match last.map(|attempt| attempt.outcome.as_str()) {
        Some("sent") => matches!(end, ("sent" | "delivered", None)),
        Some("failed") if last.is_some_and(Attempt::found_gone) => {
            end == ("failed", Some("provider_refused")) && record.suppressions.contains_key(&delivery.target)
        }
        Some("target_gone") => end == ("failed", Some("target_gone")),
        Some("unknown") if last.is_some_and(|last| record.is_lost(delivery, last)) => {
            end == ("unknown", Some("outcome_unknown"))
        }
        // Before the first or the next attempt of this delivery, another delivery found the target dead.
        None | Some("retry" | "unknown" | "pause_provider") => {
            end == ("skipped", Some("suppressed")) && record.suppressions.contains_key(&delivery.target)
        }
        Some(_) => false,
    }
}
