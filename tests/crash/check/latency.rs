//! Latency of small apps while the large app floods.

use crate::record::Record;
use crate::scene::Fault;
use crate::workload::VisibleSend;

/// Maximum 99th percentile of the time from the 202 to the inbox, in milliseconds. It is stretched on a slow machine.
const LONGEST: i64 = 5_000;
/// Time after a fault until all interrupted work has caught up, in milliseconds: an `ack_wait` and some margin. It is stretched on a
/// slow machine.
const AFTERMATH: i64 = 7_000;
/// Minimum number of undisturbed sends from which the 99th percentile is computed. With fewer, it would be the slowest send.
const LEAST: usize = 101;

/// The large app's load counts as a flood while at least this number of its sends are waiting.
const FLOOD: usize = 20;

/// Sends of small apps that reached the inbox without being delayed by a fault.
fn undisturbed(record: &Record) -> impl Iterator<Item = &VisibleSend> {
    let faults = record.faults.iter().filter(|fault| is_on_the_way(fault));
    let faults: Vec<&Fault> = faults.chain(&record.redeliveries).chain(&record.conditions.stalls).collect();
    let [longest, aftermath] = [LONGEST, AFTERMATH].map(|millis| record.conditions.stretched(millis));
    let is_disturbed = move |visible: &&VisibleSend| {
        let mut faults = faults.iter();
        faults.any(|fault| {
            let watched_until = visible.visible_at.min(visible.confirmed_at + longest);
            fault.from <= watched_until && visible.confirmed_at <= fault.until + aftermath
        })
    };
    of_apps(record, true).filter(move |visible| !is_disturbed(visible))
}

/// Measured sends of the small apps if `small` is true, otherwise of the large app.
fn of_apps(record: &Record, small: bool) -> impl Iterator<Item = &VisibleSend> {
    let is_of = move |visible: &&VisibleSend| {
        record.asked.get(&visible.notice).is_some_and(|asked| asked.is_small == small)
    };
    record.visible.iter().filter(is_of)
}

/// Counts the undisturbed sends of small apps that were confirmed while at least [`FLOOD`] sends of the large app were waiting.
/// Also returns the largest number of sends that were waiting at such a moment.
pub(crate) fn beside_a_flood(record: &Record) -> (usize, usize) {
    let sorted = |time: fn(&VisibleSend) -> i64| {
        let mut times: Vec<i64> = of_apps(record, false).map(time).collect();
        times.sort_unstable();
        times
    };
    let (begun, ended) = (sorted(|visible| visible.confirmed_at), sorted(|visible| visible.visible_at));
    let before = |times: &[i64], at| times.partition_point(|time| *time <= at);
    let waiting =
        |visible: &VisibleSend| before(&begun, visible.confirmed_at) - before(&ended, visible.confirmed_at);
    let floods: Vec<usize> = undisturbed(record).map(waiting).filter(|waiting| *waiting >= FLOOD).collect();
    (floods.len(), floods.into_iter().max().unwrap_or_default())
}

/// Returns true if the fault may delay sends between their 202 and the inbox.
fn is_on_the_way(fault: &Fault) -> bool {
    const BESIDE: [&str; 7] = ["gateway", "email", "web-push", "mobile-push", "sms", "webhooks", "snapshot"];
    !BESIDE.iter().any(|part| fault.what.contains(part))
}

/// 99th percentile of the time from 202 to the inbox in milliseconds, and the number of undisturbed sends. None if there are
/// fewer than [`LEAST`].
pub(crate) fn percentile_of_small_apps(record: &Record) -> Option<(i64, usize)> {
    let wait = |visible: &VisibleSend| visible.visible_at - visible.confirmed_at;
    let mut waits: Vec<i64> = undisturbed(record).map(wait).collect();
    waits.sort_unstable();
    let count = waits.len();
    (count >= LEAST).then(|| (waits[count * 99 / 100], count))
}

pub(crate) fn small_apps_do_not_wait(record: &Record) -> Vec<String> {
    match percentile_of_small_apps(record) {
        Some((longest, _)) if longest <= longest_allowed(record) => Vec::new(),
        Some((longest, count)) => {
            let mut reported = vec![format!("the 99th percentile of {count} sends is {longest} ms")];
            reported.extend(slowest(record));
            reported
        }
        None if reason_undecided(record).is_some() => Vec::new(),
        None => vec![format!("only {} sends of small apps were watched", of_apps(record, true).count())],
    }
}

fn longest_allowed(record: &Record) -> i64 {
    record.conditions.stretched(LONGEST)
}

/// Reason why [`small_apps_do_not_wait`] cannot decide. Enough sends were measured, but faults delayed too many of them, because
/// recovery from each fault is slow on a slow machine. Or the sends were slow, and the machine was too.
pub(crate) fn reason_undecided(record: &Record) -> Option<String> {
    let watched = of_apps(record, true).count();
    match percentile_of_small_apps(record) {
        None if watched >= LEAST => {
            let undisturbed = undisturbed(record).count();
            Some(format!("only {undisturbed} of {watched} sends of small apps were undisturbed"))
        }
        Some((longest, count)) if longest > longest_allowed(record) => {
            let slowdown = record.conditions.slowdown()?;
            Some(format!("the 99th percentile of {count} sends is {longest} ms, but {slowdown}"))
        }
        _ => None,
    }
}

/// Undisturbed sends that took too long, each with the last fault before it.
fn slowest(record: &Record) -> Vec<String> {
    let wait = |visible: &VisibleSend| visible.visible_at - visible.confirmed_at;
    let longest = longest_allowed(record);
    let mut slow: Vec<&VisibleSend> = undisturbed(record).filter(|visible| wait(visible) > longest).collect();
    slow.sort_unstable_by_key(|visible| visible.confirmed_at);
    let describe = |visible: &VisibleSend| {
        let before = record.faults.iter().filter(|fault| fault.until <= visible.confirmed_at);
        let last = before.max_by_key(|fault| fault.until);
        let since = last.map_or("before the first fault".to_owned(), |fault| {
            format!("{} ms after {}", visible.confirmed_at - fault.until, fault.what)
        });
        format!(
            "send {} took {} ms; confirmed at {}, {since}",
            visible.notice,
            wait(visible),
            visible.confirmed_at
        )
    };
    slow.into_iter().map(describe).collect()
}
