//! The arrivals of changes at live clients.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::{Position, Positions};
use testkit::eventually;
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(60);

/// The arrivals of changes. A change's number is its notification's title.
pub(crate) struct Arrivals {
    begin: Instant,
    /// Microseconds from `begin` to the publication of each change, or to the answer to its send.
    pub(crate) published: Vec<AtomicU64>,
    /// Microseconds from `begin` to the arrival.
    arrivals: Vec<AtomicU64>,
    /// Sequence of each change in the stream of its partition.
    pub(crate) sequences: Vec<AtomicU64>,
    /// The times at which the projection announced that it had committed a sequence, by partition.
    commits: Mutex<HashMap<String, Vec<(u64, u64)>>>,
    arrived: AtomicUsize,
}

impl Arrivals {
    pub(crate) fn new(changes: usize) -> Arrivals {
        let none = || (0..changes).map(|_| AtomicU64::new(0)).collect();
        Arrivals {
            begin: Instant::now(),
            published: none(),
            arrivals: none(),
            sequences: none(),
            commits: Mutex::default(),
            arrived: AtomicUsize::new(0),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap()
    }

    pub(crate) fn note(&self, change: usize) {
        if self.arrivals[change].swap(self.now(), Ordering::AcqRel) == 0 {
            self.arrived.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) async fn all(&self, changes: usize) {
        eventually(SOON, "all changes have arrived", async || {
            (self.arrived.load(Ordering::Acquire) >= changes).then_some(())
        })
        .await;
    }

    /// Notes the positions that the projection announces, until the future is dropped.
    pub(crate) async fn follow_commits(&self, mut announced: Positions) {
        while let Some(Position { stream, seq }) = announced.next().await {
            self.commits.lock().unwrap().entry(stream).or_default().push((seq, self.now()));
        }
    }

    /// Returns the time from the commit of each change to its arrival in microseconds, shortest first. `partition` is the
    /// partition of a change.
    pub(crate) fn since_commit(&self, changes: usize, partition: impl Fn(usize) -> u32) -> Vec<u64> {
        let commits = self.commits.lock().unwrap();
        let mut latencies: Vec<u64> = (0..changes)
            .map(|change| {
                let commits = &commits[&StreamName::Inbox(partition(change)).to_string()];
                let seq = self.sequences[change].load(Ordering::Acquire);
                let first = commits.partition_point(|(committed, _)| *committed < seq);
                let arrived = self.arrivals[change].load(Ordering::Acquire);
                commits.get(first).map_or(0, |(_, at)| arrived.saturating_sub(*at))
            })
            .collect();
        latencies.sort_unstable();
        latencies
    }

    /// Number of changes that have arrived.
    pub(crate) fn count(&self) -> usize {
        self.arrived.load(Ordering::Acquire)
    }

    /// Like [`since_publication`](Self::since_publication), with the time until now for a change that has not arrived, and the time since
    /// `due`, in microseconds from `begin`, for a send without an answer.
    pub(crate) fn so_far(&self, changes: Range<usize>, due: impl Fn(usize) -> u64) -> Vec<u64> {
        let now = self.now();
        let noted = |time: &AtomicU64| Some(time.load(Ordering::Acquire)).filter(|time| *time > 0);
        let wait = |change| {
            let published = noted(&self.published[change]).unwrap_or_else(|| due(change));
            noted(&self.arrivals[change]).unwrap_or(now).saturating_sub(published)
        };
        let mut waits: Vec<u64> = changes.map(wait).collect();
        waits.sort_unstable();
        waits
    }

    /// Returns the time from the publication of each change to its arrival in microseconds, shortest first.
    pub(crate) fn since_publication(&self, changes: Range<usize>) -> Vec<u64> {
        let at = |times: &[AtomicU64], change: usize| times[change].load(Ordering::Acquire);
        // A notification may arrive before the answer to its send.
        let time = |change| at(&self.arrivals, change).saturating_sub(at(&self.published, change));
        let mut latencies: Vec<u64> = changes.map(time).collect();
        latencies.sort_unstable();
        latencies
    }
}

/// Returns a quantile of sorted microseconds, in milliseconds.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize] as f64 / 1e3
}
