//! The installation as a whole: the processes that run, and the work that waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Channel, StreamName, Timestamp};
use event_log::EventLog;
use moka::future::Cache;
use service_kit::clock;
use service_kit::presence::{self, Backlog, ProcessReport};

use crate::overview::REFRESHED_EACH;
use crate::waiting::database;
use crate::{Caller, OperationError, Operations, Permission};

/// Time for which a process counts as running after its last answer: a busy process may miss a roll call.
const KEPT: Duration = Duration::from_secs(30);
/// Age of the oldest waiting message from which a backlog is late.
pub const LATE: Duration = Duration::from_secs(60);
/// Share of a stream's capacity from which it is nearly full.
pub const NEARLY_FULL: f64 = 0.8;

#[derive(Clone, Debug, PartialEq)]
pub struct Installation {
    pub at: Timestamp,
    /// Earliest first.
    pub processes: Vec<ProcessReport>,
    /// Services that this installation needs, and of which no process answered.
    pub missing: BTreeSet<&'static str>,
    pub backlogs: Vec<Waiting>,
}

/// Work that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub work: Work,
    pub number: u64,
    /// Age of the oldest.
    pub oldest: Duration,
    /// Share of the streams' capacity that is used; None if there is no limit.
    pub fill: Option<f64>,
}

/// Kind of work. The streams of the same kind are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Planning,
    Delivery(Channel),
    Inboxes,
    Outcomes,
    /// Attempts, scheduled sends and other work whose time has come.
    Timers,
    Webhooks,
}

impl Work {
    fn of(name: &str) -> Option<Work> {
        match (name, name.parse().ok()) {
            ("timers", _) => Some(Work::Timers),
            ("webhooks", _) => Some(Work::Webhooks),
            (_, Some(StreamName::Send(_))) => Some(Work::Planning),
            (_, Some(StreamName::Job(channel, _))) => Some(Work::Delivery(channel)),
            (_, Some(StreamName::Inbox(_))) => Some(Work::Inboxes),
            (_, Some(StreamName::Outcome)) => Some(Work::Outcomes),
            (_, None) => None,
        }
    }

    /// Service whose processes do the work.
    #[must_use]
    pub fn service(self) -> &'static str {
        match self {
            Work::Planning | Work::Timers => "dispatcher",
            Work::Delivery(channel) => service(channel),
            Work::Inboxes => "inbox",
            Work::Outcomes | Work::Webhooks => "webhooks",
        }
    }
}

impl Waiting {
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.number > 0 && self.oldest >= LATE
    }

    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.fill.is_some_and(|fill| fill >= NEARLY_FULL)
    }
}

/// Reads the state of the installation. All callers share an answer for ten seconds.
#[derive(Clone)]
pub struct Installations {
    operations: Operations,
    log: EventLog,
    /// Last report of each process, by instance.
    seen: Arc<Mutex<BTreeMap<String, (Timestamp, ProcessReport)>>>,
    read: Cache<(), Arc<Installation>>,
}

impl Installations {
    #[must_use]
    pub fn new(operations: Operations, log: EventLog) -> Installations {
        let read = Cache::builder().max_capacity(1).time_to_live(REFRESHED_EACH).build();
        Installations { operations, log, seen: Arc::default(), read }
    }

    /// Makes a roll call, which takes half a second, unless an earlier answer is less than ten seconds old.
    ///
    /// # Errors
    /// Returns [`OperationError::Denied`] unless the caller may see all apps.
    pub async fn read(&self, caller: &Caller) -> Result<Arc<Installation>, OperationError> {
        caller.may(Permission::View, None)?;
        let read = self.read.try_get_with((), async { Box::pin(self.ask()).await.map(Arc::new) });
        read.await.map_err(|error| OperationError::later("the processes cannot be listed; try again", error))
    }

    async fn ask(&self) -> Result<Installation, OperationError> {
        let answered = presence::roll_call(&self.log).await;
        let answered = answered
            .map_err(|error| OperationError::later("the processes cannot be asked; try again", error))?;
        let needed = needed(&self.operations).await?;
        let at = clock::now();
        let mut processes = self.remember(answered, at);
        processes.sort_by_key(|process| (process.started_at, process.instance.clone()));
        let missing = needed
            .into_iter()
            .filter(|&needed| !processes.iter().any(|process| process.services.contains(needed)));
        Ok(Installation { at, missing: missing.collect(), backlogs: backlogs(&processes), processes })
    }

    /// Returns the reports of the processes that answered now or recently.
    fn remember(&self, answered: Vec<ProcessReport>, now: Timestamp) -> Vec<ProcessReport> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(answered.into_iter().map(|report| (report.instance.clone(), (now, report))));
        seen.retain(|_, (at, _)| now.since(*at) < KEPT);
        seen.values().map(|(_, report)| report.clone()).collect()
    }
}

async fn needed(operations: &Operations) -> Result<BTreeSet<&'static str>, OperationError> {
    let channels = database(operations.store.control().channels_with_provider()).await?;
    let mut needed = BTreeSet::from(["gateway", "dispatcher", "inbox"]);
    needed.extend(channels.into_iter().map(service));
    if database(operations.store.webhooks().has_endpoints()).await? {
        needed.insert("webhooks");
    }
    Ok(needed)
}

/// Returns the name of a channel's worker, as `tidings run` has it.
pub(crate) fn service(channel: Channel) -> &'static str {
    match channel {
        Channel::WebPush => "web-push",
        Channel::MobilePush => "mobile-push",
        other => other.as_str(),
    }
}

/// Returns the backlogs by kind of work. If several processes measure the same stream, the largest value counts: after an outage, a process may
/// report an old value for some seconds.
fn backlogs(processes: &[ProcessReport]) -> Vec<Waiting> {
    let mut measured: BTreeMap<&str, Backlog> = BTreeMap::new();
    for backlog in processes.iter().flat_map(|process| &process.backlogs) {
        let known = measured.entry(&backlog.name).or_insert_with(|| backlog.clone());
        known.waiting = known.waiting.max(backlog.waiting);
        known.oldest_seconds = known.oldest_seconds.max(backlog.oldest_seconds);
    }
    let mut works: BTreeMap<Work, Waiting> = BTreeMap::new();
    for (name, backlog) in measured {
        let Some(work) = Work::of(name) else { continue };
        let waiting =
            works.entry(work).or_insert(Waiting { work, number: 0, oldest: Duration::ZERO, fill: None });
        waiting.number = waiting.number.saturating_add(backlog.waiting);
        let oldest = Duration::try_from_secs_f64(backlog.oldest_seconds).unwrap_or_default();
        waiting.oldest = waiting.oldest.max(oldest);
        waiting.fill = waiting.fill.into_iter().chain(backlog.fill).reduce(f64::max);
    }
    works.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(backlogs: &[(&str, u64, f64)]) -> ProcessReport {
        let backlog = |&(name, waiting, oldest_seconds): &(&str, u64, f64)| Backlog {
            name: name.to_owned(),
            waiting,
            oldest_seconds,
            fill: Some(0.25),
        };
        ProcessReport {
            instance: "a".to_owned(),
            host: "here".to_owned(),
            services: BTreeSet::new(),
            version: "0".to_owned(),
            started_at: Timestamp::from_millis(0),
            backlogs: backlogs.iter().map(backlog).collect(),
        }
    }

    #[test]
    fn a_backlog_that_two_processes_measure_counts_once_and_the_streams_of_a_kind_are_added() {
        let first =
            process(&[("INBOX_0", 3, 1.0), ("INBOX_1", 4, 70.0), ("SEND_bulk", 0, 0.0), ("other", 9, 9.0)]);
        let second = process(&[("INBOX_0", 5, 2.0), ("INBOX_1", 4, 60.0)]);
        let found = backlogs(&[first, second]);
        let inboxes = found.iter().find(|waiting| waiting.work == Work::Inboxes).unwrap();
        assert_eq!((inboxes.number, inboxes.oldest, inboxes.is_late()), (9, Duration::from_secs(70), true));
        let planning = found.iter().find(|waiting| waiting.work == Work::Planning).unwrap();
        assert!(!planning.is_late() && !planning.is_nearly_full());
        assert_eq!(found.len(), 2, "a newer release may measure what this one does not know");
    }

    #[test]
    fn malformed_reports_count_as_nothing() {
        let found = backlogs(&[process(&[("timers", u64::MAX, f64::NAN), ("webhooks", 1, -1.0)])]);
        assert!(found.iter().all(|waiting| waiting.oldest == Duration::ZERO), "{found:?}");
    }
}
