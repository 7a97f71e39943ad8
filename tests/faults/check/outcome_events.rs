//! Outcome events and counts of requests.

use std::collections::BTreeMap;

use crate::record::{Delivery, Record, ReportedOutcome, Request};

/// The log has an event for every attempt, and one for each delivery that ended without an attempt. The events may be out of order if
/// the log confirmed one of them late, and the same event may be there twice if the log confirmed its bundle too late.
pub(crate) fn the_log_agrees(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, delivery) in &record.deliveries {
        let mut reported = delivery.reported.clone();
        reported.sort_by_key(|reported| reported.attempt);
        reported.dedup();
        if reported != expected(delivery) {
            wrong.push(format!("{id}: {delivery:?}"));
        }
    }
    wrong
}

fn expected(delivery: &Delivery) -> Vec<ReportedOutcome> {
    let retrying = |attempt| ReportedOutcome { attempt, status: "retrying".to_owned(), reason: None };
    let mut reported: Vec<ReportedOutcome> = (1..delivery.attempt).map(retrying).collect();
    reported.push(ReportedOutcome {
        attempt: delivery.attempt,
        status: delivery.status.clone(),
        reason: delivery.reason.clone(),
    });
    reported
}

/// Number of deliveries by channel and status.
type Counts = BTreeMap<String, BTreeMap<String, i64>>;

pub(crate) fn the_counts_add_up(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut ledgers: BTreeMap<&str, Counts> = BTreeMap::new();
    for delivery in record.deliveries.values() {
        let counts = ledgers.entry(&delivery.notice).or_default();
        *counts.entry(delivery.target.0.clone()).or_default().entry(delivery.status.clone()).or_default() +=
            1;
    }
    for request in &record.requests {
        let mut counts = ledgers.remove(request.notice.as_str()).unwrap_or_default();
        for ((channel, _), number) in &request.skips {
            *counts.entry(channel.clone()).or_default().entry("skipped".to_owned()).or_default() += number;
        }
        if counts != request.counts {
            wrong.push(format!(
                "{}: the API reports {:?}, the ledger has {counts:?}",
                request.notice, request.counts
            ));
        }
        wrong.extend(all_are_counted(request));
    }
    wrong.extend(ledgers.keys().map(|notice| format!("deliveries of an unknown send: {notice}")));
    wrong
}

/// Channels whose counts add up to less than the number of recipients.
fn all_are_counted(request: &Request) -> impl Iterator<Item = String> {
    let recipients = i64::try_from(request.recipients).unwrap();
    let sum = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
    let short = request.counts.iter().filter(move |(_, counts)| sum(counts) < recipients);
    short.map(|(channel, counts)| format!("{}: {channel} {counts:?}", request.notice))
}
