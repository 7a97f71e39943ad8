//! The feed of a partition: reads its stream, and reports changes to the connections of its users.
//!
//! One task owns the connections and the recent changes of a partition, so a connection sees its updates in order. All feeds follow
//! their streams while the gateway has connections, and for ten minutes afterwards, so that clients can resume.

use std::collections::HashMap;
use std::sync::Arc;

use domain::StreamName;
use domain::event::bundle;
use event_log::{Reader, Record};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use metrics::gauge;
use service_kit::metrics::REALTIME_BEHIND_SECONDS;
use store::inbox::projection::INBOX;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::realtime::arrival::{Arrival, Start};
use crate::realtime::audience::{Audience, Settings};
use crate::realtime::recent::{Change, Recent};
use crate::realtime::report::{Current, Greeting, GreetingKind, Report, User};
use crate::realtime::rounds::Rounds;
use crate::realtime::sources::{Sources, Usage};
use crate::realtime::update::{Moment, ResetReason, StreamTag};

const READ: usize = 100;
/// Number of items after which a report contains no further message.
const REPORTED: usize = 500;
const REPORT_WITHIN: Duration = Duration::from_secs(5);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval at which connections, their apps and the tables of the inbox are checked.
const TEND: Duration = Duration::from_secs(1);
/// Time without connections after which the feed stops following the stream.
const UNUSED_FOR: Duration = Duration::from_secs(600);
/// Maximum number of messages by which another gateway may be ahead of this one.
const AHEAD: u64 = 100_000;

pub(crate) struct Feed {
    sources: Arc<Sources>,
    usage: Arc<Usage>,
    rounds: Rounds,
    partition: u32,
    arrivals: mpsc::Receiver<Arrival>,
    audience: Audience,
}

struct Progress {
    tag: StreamTag,
    table: u32,
    reader: Reader,
    recent: Recent,
    /// All changes up to this sequence have been reported.
    reported: u64,
    /// No report is made earlier, because the last one failed.
    retry_at: Instant,
    used_at: Instant,
}

enum End {
    /// The gateway has served its last request.
    Served,
    /// There were no connections for a while.
    Unused,
    /// The stream cannot be followed from here, or the inbox was rebuilt. The connections must be reset.
    Lost(ResetReason),
}

impl Feed {
    pub(crate) fn new(
        sources: Arc<Sources>,
        usage: Arc<Usage>,
        rounds: Rounds,
        partition: u32,
        arrivals: mpsc::Receiver<Arrival>,
    ) -> Feed {
        Feed { sources, usage, rounds, partition, arrivals, audience: Audience::default() }
    }

    /// Serves connections until `served` is cancelled.
    pub(crate) async fn run(mut self, served: CancellationToken) -> anyhow::Result<()> {
        let stopping = self.sources.admission.stopping.clone();
        let mut opened = self.usage.opened();
        let (mut reset, mut reported) = (None, None);
        loop {
            if self.audience.is_empty() && !self.usage.is_used() {
                tokio::select! {
                    () = served.cancelled() => return Ok(()),
                    Some(arrival) = self.arrivals.recv() => self.audience.register(arrival),
                    Ok(()) = opened.changed() => {}
                }
            }
            let Some(begun) = served.run_until_cancelled(self.begin(reported)).await else {
                return Ok(());
            };
            let mut progress = match begun {
                Ok(progress) => progress,
                Err(error) => {
                    tracing::warn!(partition = self.partition, %error, "cannot follow an inbox stream for live connections; retrying");
                    if stopping.is_cancelled() {
                        self.audience.end_all();
                    }
                    served.run_until_cancelled(sleep(PAUSE)).await;
                    continue;
                }
            };
            reported = None;
            if let Some(reason) = reset.take() {
                self.audience.reset_all(progress.moment(), reason);
            }
            match self.follow(&mut progress, &served).await {
                End::Served => return Ok(()),
                End::Unused => {}
                End::Lost(reason) => {
                    reset = Some(reason);
                    // The stream goes on after a rebuild.
                    reported = (reason == ResetReason::Rebuilt).then_some(progress.reported);
                    served.run_until_cancelled(sleep(PAUSE)).await;
                }
            }
        }
    }

    /// Starts at the checkpoint of the projection, so that every change that lists do not show yet is reported, or after the sequence
    /// `reported` if that is earlier.
    async fn begin(&self, reported: Option<u64>) -> anyhow::Result<Progress> {
        let stream = StreamName::Inbox(self.partition);
        let created_at = self.sources.log.state(stream).await?.created_at;
        // The table is read first: if it is replaced now, the next check notices that.
        let table = self.sources.store.inbox().table().await?;
        let checkpoint = self.sources.store.database().checkpoint(INBOX, stream).await?;
        self.sources.positions.note(&stream.to_string(), checkpoint);
        let reported = reported.unwrap_or(checkpoint).min(checkpoint);
        let now = Instant::now();
        Ok(Progress {
            tag: StreamTag::of(&stream.to_string(), created_at, table),
            table,
            reader: self.sources.log.reader(stream, reported + 1),
            recent: Recent::new(self.partition, self.sources.partitions, reported),
            reported,
            retry_at: now,
            used_at: now,
        })
    }

    async fn follow(&mut self, progress: &mut Progress, served: &CancellationToken) -> End {
        let sources = Arc::clone(&self.sources);
        let stopping = sources.admission.stopping.clone();
        let mut tend = interval(TEND);
        let mut checks = FuturesUnordered::new();
        loop {
            let next = progress.recent.end().min(progress.reported + 1);
            let is_unreported = progress.recent.end() > progress.reported;
            let has_arrivals = !self.audience.ungreeted().is_empty();
            let (rounds, retry_at) = (&self.rounds, progress.retry_at);
            let due = async {
                if !has_arrivals {
                    sources.positions.reached(self.partition, next).await;
                }
                sleep_until(rounds.next().max(retry_at)).await;
            };
            tokio::select! {
                () = served.cancelled() => return End::Served,
                () = stopping.cancelled(), if !self.audience.is_empty() => self.audience.end_all(),
                Some(arrival) = self.arrivals.recv(), if self.audience.has_room() => self.audience.register(arrival),
                // While the projection is behind, the stream keeps the changes that do not fit into memory.
                read = progress.reader.next_batch(READ, Duration::ZERO), if progress.recent.has_room(progress.reported) => match read {
                    Ok(records) => progress.note(&records),
                    Err(error) if error.is_permanent() => {
                        tracing::warn!(partition = self.partition, %error, "cannot follow an inbox stream further; resetting its live connections");
                        return End::Lost(ResetReason::TooOld);
                    }
                    Err(error) => {
                        tracing::warn!(partition = self.partition, %error, "cannot read an inbox stream for live connections; retrying");
                    }
                },
                () = due, if is_unreported || has_arrivals => self.report_in_time(progress).await,
                Some(settings) = checks.next() => {
                    let settings: Settings = settings;
                    self.audience.apply(&settings);
                    if settings.table.is_some_and(|table| table != progress.table) {
                        tracing::info!(partition = self.partition, "the inbox was rebuilt; resetting its live connections");
                        return End::Lost(ResetReason::Rebuilt);
                    }
                }
                now = tend.tick() => {
                    self.audience.tend(now);
                    progress.measure(self.partition, now);
                    if checks.is_empty() {
                        checks.push(Settings::read(Arc::clone(&sources), self.audience.api_keys()));
                    }
                    if self.usage.is_used() {
                        progress.used_at = now;
                    } else if now.duration_since(progress.used_at) > UNUSED_FOR {
                        return End::Unused;
                    }
                }
            }
        }
    }

    /// Makes a report. If it fails, takes too long, or is interrupted because the gateway stops, it is made again later.
    async fn report_in_time(&mut self, progress: &mut Progress) {
        let (partition, stopping) = (self.partition, self.sources.admission.stopping.clone());
        let reporting = timeout(REPORT_WITHIN, self.report(progress));
        let reported = if stopping.is_cancelled() {
            Some(reporting.await)
        } else {
            stopping.run_until_cancelled(reporting).await
        };
        match reported {
            Some(Ok(Ok(()))) | None => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(partition, %error, "cannot read changed items for live connections; retrying");
                progress.retry_at = Instant::now() + PAUSE;
            }
            Some(Err(_)) => {
                tracing::warn!(partition, "reading changed items for live connections timed out; retrying");
            }
        }
    }

    /// Greets new connections, and reports the changes that the projection has committed.
    async fn report(&mut self, progress: &mut Progress) -> Result<(), store::Error> {
        let mut reports = progress.greetings(self.audience.ungreeted());
        let (changes, until) = self.committed_changes(progress);
        reports.extend(changes);
        if !reports.is_empty() {
            let keys: Vec<_> = reports.iter().flat_map(Report::keys).collect();
            let current = Current::of(self.rounds.read(keys).await?);
            reports.iter().for_each(|report| report.send(progress.tag, &current));
        }
        // A user may have been erased between the call and the registration of the connection.
        for arrival in self.audience.greeted() {
            let user = (arrival.connection.client.app, arrival.user);
            if progress.recent.is_erased(user) {
                self.audience.erase(user);
            }
        }
        for entry in progress.recent.between(progress.reported, until) {
            if entry.change == Change::Erased {
                self.audience.erase((entry.app, entry.user));
            }
        }
        let has_unknown = progress.recent.has_unknown(progress.reported, until);
        progress.reported = until;
        if has_unknown {
            self.audience.reset_all(progress.moment(), ResetReason::TooOld);
        }
        Ok(())
    }

    /// Returns a report for each connected user with changes that are committed and not reported, and the sequence up to which
    /// the reports go.
    fn committed_changes(&self, progress: &Progress) -> (Vec<Report>, u64) {
        let committed = self.sources.positions.current(self.partition).min(progress.recent.end());
        let mut reports: HashMap<User, Report> = HashMap::new();
        let (mut items, mut last) = (0, progress.reported);
        for entry in progress.recent.between(progress.reported, committed) {
            if items >= REPORTED && entry.seq > last {
                return (reports.into_values().collect(), last);
            }
            last = entry.seq;
            let user = (entry.app, entry.user);
            if let Some(connections) = self.audience.of(user) {
                let new = || Report::new(user, connections.clone(), None);
                let is_added = reports.entry(user).or_insert_with(new).add(entry);
                items += usize::from(is_added);
            }
        }
        (reports.into_values().collect(), committed.max(progress.reported))
    }
}

impl Progress {
    /// Adds the changes of records to the recent changes.
    fn note(&mut self, records: &[Record]) {
        for record in records {
            match bundle::decode(&record.payload) {
                Ok(parts) => parts.iter().for_each(|part| self.recent.add(record.seq, &part.envelope)),
                // A projection of a newer release may be able to read the message.
                Err(_) => self.recent.add_unknown(record.seq),
            }
            self.recent.read_up_to(record.seq, self.reported, Instant::now());
        }
    }

    /// Position up to which everything was reported.
    fn moment(&self) -> Moment {
        Moment { stream: self.tag, seq: self.reported }
    }

    /// Returns the first report of each connection. If it continues an earlier connection, the report contains the changes in
    /// between.
    fn greetings(&self, arrivals: &[Arrival]) -> Vec<Report> {
        let mut reports = Vec::with_capacity(arrivals.len());
        let mut resuming: HashMap<User, Vec<(usize, u64)>> = HashMap::new();
        for arrival in arrivals {
            let user = (arrival.connection.client.app, arrival.user);
            let (at, kind) = match arrival.start {
                Start::After(moment) if self.is_recent(moment) => {
                    let at = moment.seq.min(self.reported);
                    resuming.entry(user).or_default().push((reports.len(), at));
                    (at, GreetingKind::Resumed)
                }
                Start::Now => (self.reported, GreetingKind::Fresh),
                Start::After(_) | Start::Lost => (self.reported, GreetingKind::Lost),
                Start::Created => (self.reported, GreetingKind::Found),
            };
            let to = vec![Arc::clone(&arrival.connection)];
            reports.push(Report::new(user, to, Some(Greeting { at, kind })));
        }
        let first = resuming.values().flatten().map(|(_, at)| *at).min().unwrap_or(self.reported);
        for entry in self.recent.between(first, self.reported) {
            for &(report, at) in resuming.get(&(entry.app, entry.user)).into_iter().flatten() {
                if entry.seq > at {
                    reports[report].add(entry);
                }
            }
        }
        reports
    }

    /// Returns true if all changes after a client's position are known. The client may be ahead of this gateway, because another
    /// gateway has reported more; it then receives some updates a second time.
    fn is_recent(&self, moment: Moment) -> bool {
        let known = self.recent.start()..self.reported + AHEAD;
        moment.stream == self.tag
            && known.contains(&moment.seq)
            && !self.recent.has_unknown(moment.seq, self.reported)
    }

    fn measure(&self, partition: u32, now: Instant) {
        let read_at = self.recent.read_after(self.reported);
        let behind = read_at.map_or(Duration::ZERO, |read_at| now.duration_since(read_at));
        gauge!(REALTIME_BEHIND_SECONDS, "partition" => partition.to_string()).set(behind.as_secs_f64());
    }
}
