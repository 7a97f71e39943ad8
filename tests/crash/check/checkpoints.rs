//! Checkpoints at the end of a run.

use std::collections::BTreeMap;

use suite::checkpoint::Place;

use crate::record::Record;

pub(crate) fn only_grow(record: &Record) -> Vec<String> {
    let steps = record.tables.stepped_back.iter();
    let mut wrong: Vec<String> =
        steps.map(|(place, was, became)| format!("{place:?} went from {was} to {became}")).collect();
    let mut last: BTreeMap<&Place, i64> = BTreeMap::new();
    for sample in &record.samples {
        let before = last.insert(&sample.place, sample.seq).unwrap_or_default();
        if sample.seq < before {
            wrong.push(format!("{:?} was seen at {before}, then at {}", sample.place, sample.seq));
        }
    }
    for (place, end) in &record.log.ends {
        let at = record.tables.checkpoints.get(place).copied().unwrap_or_default();
        // The checkpoints were read before the ends of the streams. If the log grew in between, a checkpoint may be behind.
        let is_behind = at != *end && record.meanwhile == 0;
        if is_behind || last.get(place).is_some_and(|seen| *seen > at) {
            wrong.push(format!("{place:?} is at {at}, but the stream ends at {end}"));
        }
    }
    wrong
}
