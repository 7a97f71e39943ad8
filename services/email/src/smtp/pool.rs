//! Connections to one server, kept for the next message.
//!
//! A connection that is in use belongs to the exchange that uses it, and comes back only when that has ended as the
//! protocol foresees. An exchange that is dropped or runs out of time takes its connection along, so nothing that
//! was half said is ever continued by another message.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use reqwest::Client;
use worker::Outbound;

use super::connection::{Connection, Failure, Reply, Stage};
use super::login::Credentials;
use super::oauth::Tokens;
use super::route::Route;
use super::settings::SmtpSettings;
use super::tls::TlsError;
use crate::message::OutgoingMail;

/// Bounds of the connections to one server.
#[derive(Clone, Debug)]
pub struct PoolLimits {
    /// Connections, idle ones included.
    pub connections: usize,
    /// Messages sent on one connection before it is closed; many servers close it themselves after some hundred.
    pub messages_per_connection: u32,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Time to have what an email needs beyond its job: its attachments, its link, room for a large one.
    pub preparing: Duration,
    /// Time to wait for a connection that is in use, or to make one, or both.
    pub connecting: Duration,
    /// Time for the commands before the content, and for replacing a connection that the server closed meanwhile.
    pub commands: Duration,
    /// Time for the content and the answer to it. Silence here leaves open whether the server took the message.
    pub content: Duration,
}

impl PoolLimits {
    /// Limits that end below the three fifths of a lease that the worker gives a call: the pool knows how far a
    /// message came, the worker does not.
    #[must_use]
    pub fn for_lease(lease: Duration) -> Self {
        PoolLimits {
            connections: 32,
            messages_per_connection: 200,
            idle: Duration::from_secs(30),
            preparing: lease / 15,
            connecting: lease / 9,
            commands: lease / 15,
            content: lease * 7 / 20,
        }
    }
}

pub(crate) struct Pool {
    settings: SmtpSettings,
    route: Route,
    credentials: Option<Credentials>,
    limits: PoolLimits,
    /// A permit is held from before a connection is taken or made until after it is put back, so that those in use
    /// and those idle are never more than the bound.
    room: Semaphore,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl Pool {
    /// A pool without connections; access tokens are asked for through `client`.
    pub(crate) fn new(
        settings: SmtpSettings,
        limits: PoolLimits,
        outbound: Outbound,
        client: &Client,
    ) -> Result<Self, TlsError> {
        let route = Route::new(&settings, outbound)?;
        let room = Semaphore::new(limits.connections);
        let tokens = |token: &_| Tokens::of(token, outbound, client);
        let credentials = settings.login.clone().map(|login| Credentials::new(login, tokens));
        Ok(Pool { settings, route, credentials, limits, room, idle: Mutex::new(Vec::new()) })
    }

    /// The settings that its connections were made with.
    pub(crate) fn settings(&self) -> &SmtpSettings {
        &self.settings
    }

    /// Sends one message. Whatever runs out of time before its content is begun was certainly not taken.
    pub(crate) async fn send(&self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let connected_by = Instant::now() + self.limits.connecting;
        // The semaphore is never closed: it gives room, or the time is over.
        let _permit = timeout_at(connected_by, self.room.acquire()).await.map_err(|_| Failure::Busy)?;
        let mut stage = Stage::Connect;
        let connected = timeout_at(connected_by, self.connect(&mut stage)).await;
        let (connection, reused) = connected.unwrap_or(Err(Failure::TimedOut { stage }))?;
        let begun = timeout(self.limits.commands, self.begin(connection, reused, mail, &mut stage)).await;
        let mut connection = begun.unwrap_or(Err(Failure::TimedOut { stage }))?;
        let finished = timeout(self.limits.content, connection.finish(mail)).await;
        let result = finished.map_err(|_| Failure::TimedOut { stage: Stage::Content })?;
        self.put_back(connection);
        result
    }

    /// A connection, and whether it was used before.
    async fn connect(&self, stage: &mut Stage) -> Result<(Connection, bool), Failure> {
        match self.take() {
            Some(connection) => Ok((connection, true)),
            None => Ok((self.open(stage).await?, false)),
        }
    }

    /// The connection on which the server waits for the content of `mail`.
    async fn begin(
        &self,
        mut connection: Connection,
        reused: bool,
        mail: &OutgoingMail,
        stage: &mut Stage,
    ) -> Result<Connection, Failure> {
        let mut result = connection.begin(mail, stage).await;
        if reused && was_closed_meanwhile(&result) {
            connection = self.open(stage).await?;
            result = connection.begin(mail, stage).await;
        }
        if let Err(failure) = result {
            self.put_back(connection);
            return Err(failure);
        }
        Ok(connection)
    }

    /// A new connection.
    pub(super) async fn open(&self, stage: &mut Stage) -> Result<Connection, Failure> {
        Connection::open(&self.route, self.credentials.as_ref(), stage).await
    }

    /// Where it leads.
    pub(super) fn describe(&self) -> String {
        self.route.describe()
    }

    /// The connection used last, so that those beyond need grow old.
    fn take(&self) -> Option<Connection> {
        let idle = self.lock().pop()?;
        (idle.since.elapsed() < self.limits.idle).then_some(idle.connection)
    }

    fn put_back(&self, connection: Connection) {
        if connection.is_usable() && connection.messages() < self.limits.messages_per_connection {
            self.lock().push(IdleConnection { connection, since: Instant::now() });
        }
    }

    /// Removes the connections that have been idle too long.
    pub(crate) fn take_expired(&self) -> Vec<Connection> {
        let expired = |idle: &mut IdleConnection| idle.since.elapsed() >= self.limits.idle;
        self.lock().extract_if(.., expired).map(|idle| idle.connection).collect()
    }

    /// Whether no idle connection is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Servers close idle connections: nothing was lost then, the message can go over a new one at once.
fn was_closed_meanwhile(result: &Result<(), Failure>) -> bool {
    match result {
        Err(Failure::Broken { stage, .. }) => *stage == Stage::Mail,
        Err(Failure::Refused { stage, reply }) => *stage == Stage::Mail && reply.code == 421,
        _ => false,
    }
}
