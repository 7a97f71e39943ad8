//! The send whose handling ends the process.

use sabotage::POISONED;

use crate::record::Record;

/// Maximum number of processes that one message may end: the first two deliveries of a message count as normal, and three marks
/// follow.
const MOST_ENDS: usize = 5;
/// Deliveries that count as normal again after nats-server has lost the number of deliveries.
const TRUSTED: usize = 2;

/// The send is parked, was never planned, and ended only as many processes as its messages may. No other message is parked for the
/// processes that it ended. A message whose last acknowledgement was lost may be parked again.
pub(crate) fn only_the_poison_is_parked(record: &Record) -> Vec<String> {
    let (poison, mut wrong) = (record.poison, Vec::new());
    let (parked, others): (Vec<_>, Vec<_>) =
        record.parked.iter().partition(|(request, _)| *request == Some(poison));
    if parked.is_empty() {
        wrong.push(format!("{poison}, whose handling ends processes, is not parked"));
    }
    if record.tables.requests.contains_key(&poison) {
        wrong.push(format!("{poison} is planned, although its planning ends the process"));
    }
    wrong.extend(others.iter().map(|(request, cause)| format!("{request:?} is parked: {cause}")));
    let count = |what: &str| record.faults.iter().filter(|fault| fault.what.starts_with(what)).count();
    let (ended, allowed) = (count(POISONED), MOST_ENDS * parked.len() + TRUSTED * count("kill nats"));
    if ended > allowed {
        wrong.push(format!("{poison} ended {ended} processes; {allowed} are allowed"));
    }
    wrong
}
