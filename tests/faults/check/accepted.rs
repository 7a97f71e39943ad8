//! Messages that providers accepted.

use std::collections::BTreeMap;

use crate::record::{Delivery, Record};

/// Counts the messages that providers accepted, by the id of the delivery.
fn times(record: &Record) -> BTreeMap<&str, usize> {
    let deliveries = record.by_content();
    let mut times = BTreeMap::new();
    for seen in record.providers.values() {
        for taken in &seen.taken {
            let target = seen.target(&taken.target);
            if let Some(id) = deliveries.get(&(&target, taken.notice.as_str())) {
                *times.entry(*id).or_default() += 1;
            }
        }
    }
    times
}

fn count(delivery: &Delivery, outcome: &str) -> usize {
    delivery.attempts.iter().filter(|attempt| attempt.outcome == outcome).count()
}

/// A delivery was accepted by providers at most as often as it has attempts with the outcome `sent` or `unknown`.
pub(crate) fn nothing_twice_without_a_fault(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, times) in times(record) {
        let delivery = &record.deliveries[id];
        let may = count(delivery, "sent") + count(delivery, "unknown");
        if times > may {
            wrong.push(format!(
                "{id}: accepted {times} times, but only {may} attempts explain this: {delivery:?}"
            ));
        }
    }
    wrong
}

pub(crate) fn no_short_message_twice(record: &Record) -> Vec<String> {
    let sms = |id: &str| record.deliveries[id].target.0 == "sms";
    let twice = times(record).into_iter().filter(|(id, times)| *times > 1 && sms(id));
    twice.map(|(id, times)| format!("{id}: accepted {times} times: {:?}", record.deliveries[id])).collect()
}

/// Every delivery with a `sent` attempt was accepted by a provider. Every accepted message is in the ledger and, if it contains a
/// delivery id, has the right one.
pub(crate) fn the_ledger_agrees(record: &Record) -> Vec<String> {
    let (deliveries, times) = (record.by_content(), times(record));
    let sent = record.deliveries.iter().filter(|(_, delivery)| count(delivery, "sent") > 0);
    let never = sent.filter(|(id, _)| !times.contains_key(id.as_str()));
    let mut wrong: Vec<String> = never.map(|(id, delivery)| format!("{id}: {delivery:?}")).collect();
    for (name, seen) in &record.providers {
        for taken in &seen.taken {
            let target = seen.target(&taken.target);
            match (deliveries.get(&(&target, taken.notice.as_str())), taken.delivery.as_deref()) {
                (None, _) => wrong.push(format!("{name}: accepted, but not in the ledger: {taken:?}")),
                (Some(id), Some(named)) if *id != named => {
                    wrong.push(format!("{name}: the message of {id} has the id {named}"));
                }
                (Some(_), _) => {}
            }
        }
    }
    wrong
}
