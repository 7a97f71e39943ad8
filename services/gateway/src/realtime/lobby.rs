//! Connections of users that do not exist yet.

use std::collections::HashMap;
use std::sync::Arc;

use domain::inbox::Counts;
use domain::{AppId, UserNumber};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::realtime::arrival::{Arrival, Feeds, Start};
use crate::realtime::connection::Connection;
use crate::realtime::crowd::make_room;
use crate::realtime::sources::{Sources, jittered};
use crate::realtime::update::{ByeReason, Kind, Update};

/// Interval between two searches for the users. A user that is created may miss updates for this time.
const SEARCH: Duration = Duration::from_secs(5);
/// Time after which a connection must be opened again.
const LONGEST: Duration = Duration::from_secs(300);
const USERS: usize = 1_000;

/// A connection that waits until its user exists.
#[derive(Debug)]
pub(crate) struct Waiting {
    connection: Arc<Connection>,
    user: String,
}

impl Waiting {
    pub(crate) fn new(connection: Arc<Connection>, user: String) -> Waiting {
        Waiting { connection, user }
    }
}

/// Connections that wait, by app and user.
type Lobby = HashMap<(AppId, String), Vec<Arc<Connection>>>;

/// Answers connections with empty counters, and passes them on when their user exists. Runs until `served` is cancelled.
pub(crate) async fn run(
    sources: Arc<Sources>,
    feeds: Feeds,
    mut arrivals: mpsc::Receiver<Waiting>,
    served: CancellationToken,
) -> anyhow::Result<()> {
    let mut lobby = Lobby::new();
    let mut search = interval(SEARCH);
    let stopping = sources.admission.stopping.clone();
    loop {
        tokio::select! {
            () = served.cancelled() => return Ok(()),
            () = stopping.cancelled(), if !lobby.is_empty() => {
                let waiting = lobby.drain().flat_map(|(_, connections)| connections);
                waiting.for_each(|connection| connection.end(ByeReason::Stopping, jittered(5)));
            }
            arrived = arrivals.recv() => {
                let Some(arrived) = arrived else { return Ok(()) };
                enter(&mut lobby, arrived);
            }
            _ = search.tick(), if !lobby.is_empty() => pass_on(&sources, &feeds, &mut lobby).await,
        }
    }
}

/// Adds a connection, unless its user has too many and it may replace none of them.
fn enter(lobby: &mut Lobby, Waiting { connection, user }: Waiting) {
    let connections = lobby.entry((connection.client.app, user)).or_default();
    if make_room(connections, &connection) {
        let kind = Kind::Ready { counts: Counts::default(), resumed: false };
        connection.push(Update { moment: None, kind });
        connections.push(connection);
    }
}

/// Passes the connections on whose users exist now, and removes those that have ended.
async fn pass_on(sources: &Sources, feeds: &Feeds, lobby: &mut Lobby) {
    tend(lobby, Instant::now());
    let users: Vec<_> = lobby.keys().cloned().collect();
    for some in users.chunks(USERS) {
        match sources.store.inbox().inbox_owners(some).await {
            Ok(owners) => {
                for (app, name, user) in owners {
                    leave(feeds, lobby, &(app, name), user);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot look for new users of live connections; retrying");
                return;
            }
        }
    }
}

fn tend(lobby: &mut Lobby, now: Instant) {
    lobby.retain(|_, connections| {
        for connection in connections.iter() {
            connection.tend(now);
            // The next connection verifies the credentials again.
            if now.duration_since(connection.opened) >= LONGEST {
                connection.end(ByeReason::TooLong, 0);
            }
        }
        connections.retain(|connection| !connection.is_over());
        !connections.is_empty()
    });
}

/// Passes the connections of a user on. Those that the feed cannot receive now are passed on later.
fn leave(feeds: &Feeds, lobby: &mut Lobby, name: &(AppId, String), user: UserNumber) {
    if let Some(connections) = lobby.get_mut(name) {
        connections.retain(|connection| !pass(feeds, connection, user));
        if connections.is_empty() {
            lobby.remove(name);
        }
    }
}

/// Passes a connection to the feed of its user. Returns false if the feed cannot receive it now.
fn pass(feeds: &Feeds, connection: &Arc<Connection>, user: UserNumber) -> bool {
    let arrival = Arrival { connection: Arc::clone(connection), user, start: Start::Created };
    feeds.of(&arrival).is_some_and(|feed| feed.try_send(arrival).is_ok())
}
