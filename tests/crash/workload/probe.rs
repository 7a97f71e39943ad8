//! Measurement of the time from a 202 until the items are in the inboxes. It polls the table `inbox_item`, so that the gateways
//! have no additional load.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use service_kit::clock;
use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// Poll interval; also the precision of the measured times.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time after which the probe stops waiting for a send to become visible, in milliseconds. It then counts the time it has waited
/// as the send's latency. Other checks find missing items.
const GIVEN_UP_AFTER: i64 = 60_000;
/// The limit that replaces [`GIVEN_UP_AFTER`] once all sends have been made. It exceeds the longest latency that the check accepts
/// on the slowest machine, so that a send without an item fails the check.
const GIVEN_UP_IN_THE_END_AFTER: i64 = 16_000;
const WAITING: usize = 1_000;

/// A send that was confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingProbe {
    pub(super) request: Uuid,
    pub(super) notice: usize,
    pub(super) recipients: usize,
    /// Time of the confirmation, in milliseconds since 1970.
    pub(super) at: i64,
}

/// A confirmed send whose items are in all inboxes, or for which the probe stopped waiting. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleSend {
    pub(crate) notice: usize,
    pub(crate) confirmed_at: i64,
    /// Time at which the probe found the last item, or stopped waiting for the send.
    pub(crate) visible_at: i64,
}

/// Creates the index by which the database finds the items of a send.
pub(super) async fn create_index(database: &PgPool) {
    sqlx::query("CREATE INDEX seen_from_beside ON inbox_item (send_id)").execute(database).await.unwrap();
}

/// Handle of a task that polls the table until it is stopped.
#[derive(Clone)]
pub(super) struct Probe(mpsc::Sender<ProbeCommand>);

enum ProbeCommand {
    Watch(PendingProbe),
    Stop(oneshot::Sender<Vec<VisibleSend>>),
}

impl Probe {
    pub(super) fn start(database: &PgPool) -> Probe {
        let (commands, received) = mpsc::channel(WAITING);
        tokio::spawn(poll(database.clone(), received));
        Probe(commands)
    }

    pub(super) async fn watch(&self, pending: PendingProbe) {
        self.0.send(ProbeCommand::Watch(pending)).await.unwrap();
    }

    /// Stops the task as soon as it waits for no more sends, and returns all sends.
    pub(super) async fn stop(self) -> Vec<VisibleSend> {
        let (answer, answered) = oneshot::channel();
        self.0.send(ProbeCommand::Stop(answer)).await.unwrap_or_default();
        answered.await.unwrap()
    }
}

async fn poll(database: PgPool, mut commands: mpsc::Receiver<ProbeCommand>) {
    let (mut pending, mut seen) = (HashMap::new(), Vec::new());
    let mut end: Option<oneshot::Sender<_>> = None;
    let mut pace = tokio::time::interval(INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.is_none() || !pending.is_empty() {
        pace.tick().await;
        while let Ok(order) = commands.try_recv() {
            match order {
                ProbeCommand::Watch(one) => drop(pending.insert(one.request, one)),
                ProbeCommand::Stop(answer) => end = Some(answer),
            }
        }
        let complete = complete(&database, &pending).await;
        let now = clock::now().millis();
        let patience = if end.is_some() { GIVEN_UP_IN_THE_END_AFTER } else { GIVEN_UP_AFTER };
        let done = pending.extract_if(|request, one: &mut PendingProbe| {
            complete.contains(request) || now - one.at > patience
        });
        seen.extend(done.map(|(_, PendingProbe { notice, at, .. })| VisibleSend {
            notice,
            confirmed_at: at,
            visible_at: now,
        }));
    }
    // Sending fails only if the caller no longer waits.
    if let Some(answer) = end {
        answer.send(seen).unwrap_or_default();
    }
}

/// Reads which sends are in all inboxes of their recipients. Returns an empty set while the database is unavailable.
async fn complete(database: &PgPool, pending: &HashMap<Uuid, PendingProbe>) -> HashSet<Uuid> {
    if pending.is_empty() {
        return HashSet::new();
    }
    let requests: Vec<Uuid> = pending.keys().copied().collect();
    let rows: Vec<(Uuid, i64)> =
        sqlx::query_as("SELECT send_id, count(*) FROM inbox_item WHERE send_id = ANY($1) GROUP BY send_id")
            .bind(requests)
            .fetch_all(database)
            .await
            .unwrap_or_default();
    let is_complete = |(request, items): &(Uuid, i64)| {
        pending.get(request).is_some_and(|one| usize::try_from(*items).unwrap() >= one.recipients)
    };
    rows.into_iter().filter(is_complete).map(|(request, _)| request).collect()
}
