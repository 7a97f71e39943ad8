//! Connections of users that do not exist yet.

use std::collections::HashMap;
use std::sync::Arc;

use domain::inbox::Counts;
use domain::{AppId, UserNumber};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::realtime::connection::Connection;
use crate::realtime::hub::jittered;
use crate::realtime::update::{ByeReason, Kind, Update};

/// Interval between two searches for the users. A user that is created may miss updates for this time.
const SEARCH: Duration = Duration::from_secs(5);
/// Time after which a connection must be opened again.
const LONGEST: Duration = Duration::from_secs(300);
/// Maximum number of users in one statement.
const USERS: usize = 1_000;

/// A connection that waits until its user exists.
#[derive(Debug)]
pub(crate) struct Waiting {
    connection: Arc<Connection>,
    user: String,
    arrived: Instant,
}

impl Waiting {
    pub(crate) fn new(connection: Arc<Connection>, user: String) -> Waiting {
        Waiting { connection, user, arrived: Instant::now() }
    }
}

/// Answers connections with empty counters, and passes them on when their user exists. Runs until `served` is cancelled.
pub(crate) async fn run(
    gateway: Arc<Gateway>,
    mut arrivals: mpsc::Receiver<Waiting>,
    served: CancellationToken,
) -> anyhow::Result<()> {
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut search = interval(SEARCH);
    let stopping = gateway.stopping.clone();
    loop {
        tokio::select! {
            () = served.cancelled() => return Ok(()),
            () = stopping.cancelled(), if !waiting.is_empty() => {
                waiting.drain(..).for_each(|one| one.connection.end(ByeReason::Stopping, jittered(5)));
            }
            arrived = arrivals.recv() => {
                let Some(arrived) = arrived else { return Ok(()) };
                let kind = Kind::Ready { counts: Counts::default(), resumed: false };
                arrived.connection.push(Update { moment: None, kind });
                waiting.push(arrived);
            }
            _ = search.tick(), if !waiting.is_empty() => waiting = pass_on(&gateway, waiting).await,
        }
    }
}

/// Passes the connections on whose users exist now. Returns the others.
async fn pass_on(gateway: &Gateway, mut waiting: Vec<Waiting>) -> Vec<Waiting> {
    let now = Instant::now();
    for Waiting { connection, arrived, .. } in &waiting {
        connection.tend(now);
        // The next connection verifies the credentials again.
        if now.duration_since(*arrived) >= LONGEST {
            connection.end(ByeReason::TooLong, 0);
        }
    }
    waiting.retain(|one| !one.connection.is_over());
    let mut found: HashMap<(AppId, String), UserNumber> = HashMap::new();
    for some in waiting.chunks(USERS) {
        let users: Vec<_> = some.iter().map(|one| (one.connection.client.app, one.user.clone())).collect();
        match gateway.store.inbox().inbox_owners(&users).await {
            Ok(owners) => found.extend(owners.into_iter().map(|(app, name, number)| ((app, name), number))),
            Err(error) => {
                tracing::warn!(%error, "cannot look for new users of live connections; retrying");
                break;
            }
        }
    }
    let mut left = Vec::new();
    for one in waiting {
        match found.get(&(one.connection.client.app, one.user.clone())) {
            Some(&user) if gateway.leave_lobby(&one.connection, user) => {}
            Some(_) | None => left.push(one),
        }
    }
    left
}
