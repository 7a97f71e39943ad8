//! The feed of a partition: reads its stream, and reports changes to the connections of its users.
//!
//! One task owns the connections and the recent changes of a partition, so a connection sees its updates in order. The task
//! follows the stream only while it has connections, and for ten minutes afterwards.

use std::collections::HashMap;
use std::sync::Arc;

use domain::StreamName;
use domain::event::bundle;
use event_log::{Reader, Record};
use metrics::gauge;
use service_kit::metrics::REALTIME_BEHIND_SECONDS;
use store::inbox::projection::INBOX;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::realtime::connection::{Connection, count_reset};
use crate::realtime::hub::{Arrival, Start, jittered};
use crate::realtime::recent::{Change, Recent};
use crate::realtime::report::{Current, Greeting, GreetingKind, Report, User};
use crate::realtime::update::{ByeReason, Kind, Moment, ResetReason, StreamTag, Update};

/// Maximum number of records per read.
const READ: usize = 500;
/// Number of items after which a report contains no further message.
const REPORTED: usize = 500;
/// Minimum time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after a failure of the database or the log.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval at which connections are checked.
const TEND: Duration = Duration::from_secs(1);
/// Interval at which the settings of the connections' apps are checked.
const CHECK_APPS: u64 = 3;
/// Time without connections after which the feed stops to follow the stream.
const UNUSED_FOR: Duration = Duration::from_secs(600);
/// Maximum number of connections of one user.
pub const PER_USER: usize = 20;
/// Maximum number of seconds after which the clients of a stopping gateway connect again.
const RECONNECT_WITHIN: u64 = 5;
/// Maximum number of messages by which another gateway may be ahead of this one.
const AHEAD: u64 = 100_000;

pub(crate) struct Feed {
    gateway: Arc<Gateway>,
    partition: u32,
    arrivals: mpsc::Receiver<Arrival>,
    live: HashMap<User, Vec<Arc<Connection>>>,
}

/// Progress of a feed in its stream.
struct Progress {
    tag: StreamTag,
    reader: Reader,
    recent: Recent,
    /// All changes up to this sequence have been reported.
    reported: u64,
    /// Connections that have arrived since the last report.
    arrived: Vec<Arrival>,
    next_report: Instant,
    used_at: Instant,
    /// Time at which the oldest change that was not reported was read.
    behind_since: Option<Instant>,
}

/// Reason for which a feed stops to follow its stream.
enum End {
    /// The gateway has served its last request.
    Served,
    /// There were no connections for a while.
    Unused,
    /// The stream cannot be followed from here. The connections must be reset.
    Lost,
}

impl Feed {
    pub(crate) fn new(gateway: Arc<Gateway>, partition: u32, arrivals: mpsc::Receiver<Arrival>) -> Feed {
        Feed { gateway, partition, arrivals, live: HashMap::new() }
    }

    /// Serves connections until `served` is cancelled.
    pub(crate) async fn run(mut self, served: CancellationToken) -> anyhow::Result<()> {
        let mut first = None;
        loop {
            if first.is_none() && self.live.is_empty() {
                first = match served.run_until_cancelled(self.arrivals.recv()).await {
                    Some(Some(arrival)) => Some(arrival),
                    Some(None) | None => return Ok(()),
                };
            }
            let Some(begun) = served.run_until_cancelled(self.begin()).await else { return Ok(()) };
            let mut progress = match begun {
                Ok(progress) => progress,
                Err(error) => {
                    tracing::warn!(partition = self.partition, %error, "cannot follow an inbox stream for live connections; retrying");
                    served.run_until_cancelled(sleep(PAUSE)).await;
                    continue;
                }
            };
            if let Some(arrival) = first.take() {
                self.register(&arrival);
                progress.arrived.push(arrival);
            }
            match self.follow(&mut progress, &served).await {
                End::Served => return Ok(()),
                End::Unused => {}
                End::Lost => self.reset_all(&progress),
            }
        }
    }

    /// Starts at the checkpoint of the projection, so that every change that lists do not show yet is reported.
    async fn begin(&self) -> anyhow::Result<Progress> {
        let stream = StreamName::Inbox(self.partition);
        let created_at = self.gateway.log.state(stream).await?.created_at;
        let checkpoint = self.gateway.store.database().checkpoint(INBOX, stream).await?;
        self.gateway.positions.note(&stream.to_string(), checkpoint);
        let now = Instant::now();
        Ok(Progress {
            tag: StreamTag::of(&stream.to_string(), created_at),
            reader: self.gateway.log.reader(stream, checkpoint + 1),
            recent: Recent::new(self.partition, self.gateway.partitions, checkpoint),
            reported: checkpoint,
            arrived: Vec::new(),
            next_report: now,
            used_at: now,
            behind_since: None,
        })
    }

    async fn follow(&mut self, progress: &mut Progress, served: &CancellationToken) -> End {
        let gateway = Arc::clone(&self.gateway);
        let stopping = gateway.stopping.clone();
        let mut tend = tokio::time::interval(TEND);
        let mut ticks = 0;
        loop {
            let next = progress.recent.end().min(progress.reported + 1);
            let is_unreported = progress.recent.end() > progress.reported;
            let has_arrivals = !progress.arrived.is_empty();
            let report_at = progress.next_report;
            let due = async {
                if !has_arrivals {
                    gateway.positions.reached(self.partition, next).await;
                }
                sleep_until(report_at).await;
            };
            tokio::select! {
                () = served.cancelled() => return End::Served,
                () = stopping.cancelled(), if !self.live.is_empty() || has_arrivals => self.end_all(progress),
                Some(arrival) = self.arrivals.recv() => {
                    self.register(&arrival);
                    progress.arrived.push(arrival);
                }
                read = progress.reader.next_batch(READ, Duration::ZERO) => match read {
                    Ok(records) => self.note(progress, &records),
                    Err(error) if error.is_permanent() => {
                        tracing::warn!(partition = self.partition, %error, "cannot follow an inbox stream further; resetting its live connections");
                        return End::Lost;
                    }
                    Err(error) => {
                        tracing::warn!(partition = self.partition, %error, "cannot read an inbox stream for live connections; retrying");
                    }
                },
                () = due, if is_unreported || has_arrivals => {
                    if let Err(error) = self.report(progress).await {
                        tracing::warn!(partition = self.partition, %error, "cannot read changed items for live connections; retrying");
                        progress.next_report = Instant::now() + PAUSE;
                    }
                }
                now = tend.tick() => {
                    ticks += 1;
                    self.tend(progress, now, ticks % CHECK_APPS == 0).await;
                    if now.duration_since(progress.used_at) > UNUSED_FOR {
                        return End::Unused;
                    }
                }
            }
        }
    }

    /// Adds the changes of records to the recent changes.
    fn note(&self, progress: &mut Progress, records: &[Record]) {
        let now = Instant::now();
        for record in records {
            // Messages that this release cannot read are handled by the projection.
            for part in bundle::decode(&record.payload).unwrap_or_default() {
                progress.recent.add(record.seq, &part.envelope);
            }
            progress.recent.read_up_to(record.seq, now);
        }
        if progress.recent.start() > progress.reported {
            // The projection is far behind, and not all changes were kept until it had committed them.
            progress.reported = progress.recent.start();
            self.reset_all(progress);
        }
        if progress.recent.end() > progress.reported {
            progress.behind_since.get_or_insert(now);
        }
    }

    /// Registers a new connection. If the user has too many, ends the oldest.
    fn register(&mut self, arrival: &Arrival) {
        let user = (arrival.connection.client.app, arrival.user);
        let connections = self.live.entry(user).or_default();
        connections.retain(|connection| !connection.is_over());
        if connections.len() >= PER_USER {
            connections.remove(0).end(ByeReason::Replaced, 0);
        }
        connections.push(Arc::clone(&arrival.connection));
    }

    /// Greets the connections that have arrived, and reports the changes that the projection has committed.
    async fn report(&mut self, progress: &mut Progress) -> Result<(), store::Error> {
        let mut reports: Vec<Report> =
            progress.arrived.iter().map(|arrival| progress.greet(arrival)).collect();
        let (changes, until) = self.committed_changes(progress);
        reports.extend(changes);
        if !reports.is_empty() {
            let keys: Vec<_> = reports.iter().flat_map(Report::keys).collect();
            let current = Current::of(self.gateway.store.inbox().current_items(&keys).await?);
            reports.iter().for_each(|report| report.send(progress.tag, &current));
        }
        for entry in progress.recent.between(progress.reported, until) {
            if entry.change == Change::Erased {
                let erased = self.live.remove(&(entry.app, entry.user)).unwrap_or_default();
                erased.iter().for_each(|connection| connection.end(ByeReason::Erased, 0));
            }
        }
        progress.arrived.clear();
        progress.reported = until;
        progress.next_report = Instant::now() + REPORT_INTERVAL;
        if progress.recent.end() == until {
            progress.behind_since = None;
        }
        Ok(())
    }

    /// Returns a report for each connected user with changes that are committed and not reported, and the sequence up to which
    /// the reports go.
    fn committed_changes(&self, progress: &Progress) -> (Vec<Report>, u64) {
        let committed = self.gateway.positions.current(self.partition).min(progress.recent.end());
        let mut reports: HashMap<User, Report> = HashMap::new();
        let (mut items, mut last) = (0, progress.reported);
        for entry in progress.recent.between(progress.reported, committed) {
            if items >= REPORTED && entry.seq > last {
                return (reports.into_values().collect(), last);
            }
            last = entry.seq;
            let user = (entry.app, entry.user);
            if let Some(connections) = self.live.get(&user) {
                let new = || Report::new(user, connections.clone(), None);
                reports.entry(user).or_insert_with(new).add(entry);
                items += 1;
            }
        }
        (reports.into_values().collect(), committed.max(progress.reported))
    }

    /// Removes closed connections, ends those whose time is over, and updates the metrics.
    async fn tend(&mut self, progress: &mut Progress, now: Instant, check_apps: bool) {
        self.live.retain(|_, connections| {
            connections.iter().for_each(|connection| connection.tend(now));
            connections.retain(|connection| !connection.is_over());
            !connections.is_empty()
        });
        if check_apps {
            self.check_apps().await;
        }
        if !self.live.is_empty() {
            progress.used_at = now;
        }
        let behind = progress.behind_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        gauge!(REALTIME_BEHIND_SECONDS, "partition" => self.partition.to_string()).set(behind.as_secs_f64());
    }

    /// Ends the connections of apps that are disabled, or that now require other credentials.
    async fn check_apps(&self) {
        let mut apps: HashMap<&str, Vec<&Arc<Connection>>> = HashMap::new();
        for connection in self.live.values().flatten() {
            apps.entry(&connection.client.api_key).or_default().push(connection);
        }
        for (key, connections) in apps {
            let Some(peer) = connections.first().map(|connection| connection.client.peer) else { continue };
            // If the app cannot be read now, it is checked again at the next interval.
            let Ok(known) = self.gateway.apps.by_key(key, peer, &self.gateway.limits).await else { continue };
            let app = known.as_ref().map(|known| &known.app).filter(|app| !app.disabled);
            for connection in connections {
                let opened_by = connection.client.opened_by;
                match app {
                    None => connection.end(ByeReason::AppDisabled, 0),
                    Some(app) if !opened_by.is_enough_for(app) => connection.end(ByeReason::Credentials, 0),
                    Some(_) => {}
                }
            }
        }
    }

    /// Ends all connections because the gateway stops.
    fn end_all(&mut self, progress: &mut Progress) {
        progress.arrived.clear();
        for connection in self.live.drain().flat_map(|(_, connections)| connections) {
            connection.end(ByeReason::Stopping, jittered(RECONNECT_WITHIN));
        }
    }

    /// Makes all clients fetch their items again.
    fn reset_all(&self, progress: &Progress) {
        for connection in self.live.values().flatten() {
            let moment = Some(Moment { stream: progress.tag, seq: progress.reported });
            connection.push(Update { moment, kind: Kind::Reset(ResetReason::TooOld) });
            count_reset(ResetReason::TooOld);
        }
    }
}

impl Progress {
    /// Returns the first report of a connection. If it continues an earlier one, the report contains the changes in between.
    fn greet(&self, arrival: &Arrival) -> Report {
        let user = (arrival.connection.client.app, arrival.user);
        let to = vec![Arc::clone(&arrival.connection)];
        let greet = |at, kind| Report::new(user, to, Some(Greeting { at, kind }));
        match arrival.start {
            Start::After(moment) if self.is_recent(moment) => {
                let at = moment.seq.min(self.reported);
                let mut report = greet(at, GreetingKind::Resumed);
                let missed = self.recent.between(at, self.reported);
                missed.filter(|entry| (entry.app, entry.user) == user).for_each(|entry| report.add(entry));
                report
            }
            Start::Now => greet(self.reported, GreetingKind::Fresh),
            Start::After(_) | Start::Lost => {
                count_reset(ResetReason::TooOld);
                greet(self.reported, GreetingKind::Lost)
            }
            Start::Created => greet(self.reported, GreetingKind::Found),
        }
    }

    /// Returns true if all changes after a client's position are known. The client may be ahead of this gateway, because another
    /// gateway has reported more; it then receives some updates a second time.
    fn is_recent(&self, moment: Moment) -> bool {
        moment.stream == self.tag && (self.recent.start()..self.reported + AHEAD).contains(&moment.seq)
    }
}
