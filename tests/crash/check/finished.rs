//! Time until all work was done.

use crate::idle;
use crate::record::Record;

/// All work is done within the time limit after the last fault and the last send.
pub(crate) fn all_work_is_done(record: &Record) -> Vec<String> {
    let limit = record.conditions.stretched_time(idle::WITHIN);
    match &record.waiting.left {
        Some(left) => vec![left.clone()],
        None if record.waiting.took > limit => {
            vec![format!("all work was done after {:.1?}; the limit is {limit:.1?}", record.waiting.took)]
        }
        None => Vec::new(),
    }
}

/// Reason why [`all_work_is_done`] cannot decide: all work was done, but late, and the machine became slower. If work is left, the
/// check fails on every machine.
pub(crate) fn reason_undecided(record: &Record) -> Option<String> {
    if record.waiting.left.is_some() {
        return None;
    }
    let late = all_work_is_done(record).pop()?;
    record.conditions.slowdown().map(|slowdown| format!("{late}, but {slowdown}"))
}
