//! Time from a 202 until the items are in the inboxes, read from the table so that the gateways have no additional load.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use service_kit::clock;
use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// Poll interval, which is also the precision of all times.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time after which a send that is not visible is no longer polled but counted, in milliseconds; other checks find missing items.
/// The second is the limit once all sends are made.
const GIVEN_UP_AFTER: i64 = 60_000;
const GIVEN_UP_IN_THE_END_AFTER: i64 = 6_000;
const WAITING: usize = 1_000;

/// A send that was confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) request: Uuid,
    pub(super) notice: usize,
    pub(super) recipients: usize,
    /// When, in milliseconds since 1970.
    pub(super) at: i64,
}

/// A send that shows in all inboxes. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    pub(crate) notice: usize,
    pub(crate) confirmed_at: i64,
    /// Time at which it was seen or given up.
    pub(crate) visible_at: i64,
}

/// Creates the index by which the database finds the items of a send.
pub(super) async fn note(database: &PgPool) {
    sqlx::query("CREATE INDEX seen_from_beside ON inbox_item (send_id)").execute(database).await.unwrap();
}

/// Handle on a task that polls until it is stopped.
#[derive(Clone)]
pub(super) struct Probe(mpsc::Sender<Order>);

enum Order {
    Watch(Pending),
    Stop(oneshot::Sender<Vec<Visible>>),
}

impl Probe {
    pub(super) fn start(database: &PgPool) -> Probe {
        let (orders, received) = mpsc::channel(WAITING);
        tokio::spawn(look(database.clone(), received));
        Probe(orders)
    }

    pub(super) async fn watch(&self, pending: Pending) {
        self.0.send(Order::Watch(pending)).await.unwrap();
    }

    /// Returns when every send is visible or given up.
    pub(super) async fn stop(self) -> Vec<Visible> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Order::Stop(answer)).await.unwrap_or_default();
        answered.await.unwrap()
    }
}

async fn look(database: PgPool, mut orders: mpsc::Receiver<Order>) {
    let (mut pending, mut seen) = (HashMap::new(), Vec::new());
    let mut end: Option<oneshot::Sender<_>> = None;
    let mut pace = tokio::time::interval(INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.is_none() || !pending.is_empty() {
        pace.tick().await;
        while let Ok(order) = orders.try_recv() {
            match order {
                Order::Watch(one) => drop(pending.insert(one.request, one)),
                Order::Stop(answer) => end = Some(answer),
            }
        }
        let complete = complete(&database, &pending).await;
        let now = clock::now().millis();
        let patience = if end.is_some() { GIVEN_UP_IN_THE_END_AFTER } else { GIVEN_UP_AFTER };
        let done = pending
            .extract_if(|request, one: &mut Pending| complete.contains(request) || now - one.at > patience);
        seen.extend(done.map(|(_, Pending { notice, at, .. })| Visible {
            notice,
            confirmed_at: at,
            visible_at: now,
        }));
    }
    // Fails if the caller no longer waits.
    if let Some(answer) = end {
        answer.send(seen).unwrap_or_default();
    }
}

/// Sends that are in all inboxes. None while the database is unavailable.
async fn complete(database: &PgPool, pending: &HashMap<Uuid, Pending>) -> HashSet<Uuid> {
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
