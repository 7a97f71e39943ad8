//! The connections of a partition's users.

use std::collections::HashMap;
use std::sync::Arc;

use fairness::peer::Peer;
use tokio::time::Instant;

use crate::access::known_app::{Evidence, KnownApp};
use crate::realtime::arrival::Arrival;
use crate::realtime::connection::{Connection, count_reset};
use crate::realtime::crowd::make_room;
use crate::realtime::report::User;
use crate::realtime::sources::{Sources, jittered};
use crate::realtime::update::{ByeReason, Kind, Moment, ResetReason, Update};

/// Maximum number of connections that wait to be greeted.
const UNGREETED: usize = 500;
/// Maximum number of seconds after which clients connect again if many connections end at once.
const RECONNECT_WITHIN: u64 = 5;

/// The connections of a partition. Those that have not been greeted yet are registered like the others.
#[derive(Default)]
pub(super) struct Audience {
    live: HashMap<User, Vec<Arc<Connection>>>,
    ungreeted: Vec<Arrival>,
}

/// Settings that may change while connections are open.
pub(super) struct Settings {
    /// Connections that were opened later may have newer credentials.
    read_from: Instant,
    /// Apps by API key; None if the app does not exist or is disabled. An app that cannot be read now is left out.
    apps: HashMap<String, Option<Arc<KnownApp>>>,
    /// Identity of the table of items; None if it cannot be read now.
    pub(super) table: Option<u32>,
}

impl Audience {
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Returns true if another connection can be registered before those that wait are greeted.
    pub(super) fn has_room(&self) -> bool {
        self.ungreeted.len() < UNGREETED
    }

    /// Registers a connection, unless its user has too many and it may replace none of them.
    pub(super) fn register(&mut self, arrival: Arrival) {
        let connections = self.live.entry((arrival.connection.client.app, arrival.user)).or_default();
        if make_room(connections, &arrival.connection) {
            connections.push(Arc::clone(&arrival.connection));
            self.ungreeted.push(arrival);
        }
    }

    /// Returns the connections that must be greeted.
    pub(super) fn ungreeted(&self) -> &[Arrival] {
        &self.ungreeted
    }

    /// Notes that all connections have been greeted, and returns these.
    pub(super) fn greeted(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.ungreeted)
    }

    pub(super) fn of(&self, user: User) -> Option<&Vec<Arc<Connection>>> {
        self.live.get(&user)
    }

    pub(super) fn erase(&mut self, user: User) {
        let connections = self.live.remove(&user).unwrap_or_default();
        connections.iter().for_each(|connection| connection.end(ByeReason::Erased, 0));
    }

    /// Ends all connections because the gateway stops.
    pub(super) fn end_all(&mut self) {
        self.ungreeted.clear();
        for connection in self.live.drain().flat_map(|(_, connections)| connections) {
            connection.end(ByeReason::Stopping, jittered(RECONNECT_WITHIN));
        }
    }

    /// Makes all clients fetch their items again, except those that are greeted later.
    pub(super) fn reset_all(&self, moment: Moment, reason: ResetReason) {
        for connection in self.live.values().flatten() {
            if !self.ungreeted.iter().any(|arrival| Arc::ptr_eq(&arrival.connection, connection)) {
                count_reset(reason);
                connection.push(Update { moment: Some(moment), kind: Kind::Reset(reason) });
            }
        }
    }

    /// Removes closed connections, and ends those whose time is over.
    pub(super) fn tend(&mut self, now: Instant) {
        self.live.retain(|_, connections| {
            connections.iter().for_each(|connection| connection.tend(now));
            connections.retain(|connection| !connection.is_over());
            !connections.is_empty()
        });
    }

    /// Returns the API keys of all connections, each with a peer that uses it.
    pub(super) fn api_keys(&self) -> Vec<(String, Peer)> {
        let clients = self.live.values().flatten().map(|connection| &connection.client);
        let keys: HashMap<&str, Peer> =
            clients.map(|client| (client.api_key.as_str(), client.peer)).collect();
        keys.into_iter().map(|(key, peer)| (key.to_owned(), peer)).collect()
    }

    /// Ends the connections of apps that are disabled, or that no longer accept the evidence of a connection.
    pub(super) fn apply(&self, settings: &Settings) {
        let earlier = |connection: &&Arc<Connection>| connection.opened < settings.read_from;
        for connection in self.live.values().flatten().filter(earlier) {
            let client = &connection.client;
            match settings.apps.get(&client.api_key) {
                Some(None) => connection.end(ByeReason::AppDisabled, 0),
                Some(Some(app)) if !app.accepts(&client.evidence) => {
                    // A client can get another token, but no other secret.
                    if matches!(client.evidence, Evidence::Token(_)) {
                        connection.end(ByeReason::Expired, jittered(RECONNECT_WITHIN));
                    } else {
                        connection.end(ByeReason::Credentials, 0);
                    }
                }
                Some(_) | None => {}
            }
        }
    }
}

impl Settings {
    pub(super) async fn read(sources: Arc<Sources>, keys: Vec<(String, Peer)>) -> Settings {
        let read_from = Instant::now();
        let mut apps = HashMap::with_capacity(keys.len());
        for (key, peer) in keys {
            if let Ok(known) = sources.access.apps.by_key(&key, peer, &sources.admission.limits).await {
                apps.insert(key, known.filter(|known| !known.app.settings.disabled));
            }
        }
        Settings { read_from, apps, table: sources.store.inbox().table().await.ok() }
    }
}
