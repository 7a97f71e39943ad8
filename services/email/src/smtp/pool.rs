//! Pool of connections to one server.
//!
//! An exchange owns its connection, and returns it only after ending in a defined state. If an exchange is dropped or
//! times out, its connection is closed, so a message never continues a half-finished exchange.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use reqwest::Client;
use worker::Outbound;

use super::connection::Connection;
use super::failure::{Failure, Reply, Stage};
use super::login::Credentials;
use super::oauth::Tokens;
use super::relay::Route;
use super::settings::SmtpSettings;
use super::tls::TlsError;
use crate::message::OutgoingMail;

/// Limits of the connections to one server.
#[derive(Clone, Debug)]
pub struct PoolLimits {
    /// Maximum number of connections, including idle ones.
    pub connections: usize,
    /// Messages sent on one connection before it is closed; many servers close it after some hundred.
    pub messages_per_connection: u32,
    /// Time that an unused connection is kept.
    pub idle: Duration,
    /// Time to load attachments and the unsubscribe link, and to wait for a permit for a large email.
    pub preparing: Duration,
    /// Time to wait for a free connection and to open a new one.
    pub connecting: Duration,
    /// Time for the commands before the content, and for replacing a connection that the server closed meanwhile.
    pub commands: Duration,
    /// Time for the content and the reply to it. On a timeout here the outcome is unknown.
    pub content: Duration,
}

impl PoolLimits {
    /// Creates limits whose sum is less than three fifths of a lease, the worker's own limit for a call. On a timeout, only
    /// the pool knows the stage of the message.
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
    /// A permit is held from before a connection is taken or opened until after it is returned, so that used and idle
    /// connections together never exceed the limit.
    room: Semaphore,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl Pool {
    /// Creates a pool without connections. Access tokens are requested through `client`.
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

    /// Settings of the provider.
    pub(crate) fn settings(&self) -> &SmtpSettings {
        &self.settings
    }

    /// Sends one message. A message that times out before its content was certainly not accepted.
    pub(crate) async fn send(&self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let connected_by = Instant::now() + self.limits.connecting;
        // The semaphore is never closed, so an error is a timeout.
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

    /// Returns a connection, and true if it was used before.
    async fn connect(&self, stage: &mut Stage) -> Result<(Connection, bool), Failure> {
        match self.take() {
            Some(connection) => Ok((connection, true)),
            None => Ok((self.open(stage).await?, false)),
        }
    }

    /// Returns a connection on which the server waits for the content of `mail`.
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

    /// Opens a new connection.
    pub(super) async fn open(&self, stage: &mut Stage) -> Result<Connection, Failure> {
        Connection::open(&self.route, self.credentials.as_ref(), stage).await
    }

    /// Server and protection, for display.
    pub(super) fn describe(&self) -> String {
        self.route.describe()
    }

    /// Takes the connection used last, so that surplus connections expire.
    fn take(&self) -> Option<Connection> {
        let idle = self.lock().pop()?;
        (idle.since.elapsed() < self.limits.idle).then_some(idle.connection)
    }

    fn put_back(&self, connection: Connection) {
        if connection.is_usable() && connection.messages() < self.limits.messages_per_connection {
            self.lock().push(IdleConnection { connection, since: Instant::now() });
        }
    }

    /// Removes and returns the connections that were idle for `PoolLimits::idle` or longer.
    pub(crate) fn take_expired(&self) -> Vec<Connection> {
        let expired = |idle: &mut IdleConnection| idle.since.elapsed() >= self.limits.idle;
        self.lock().extract_if(.., expired).map(|idle| idle.connection).collect()
    }

    /// Returns true if no idle connection is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the server had closed the idle connection: nothing was sent, so a new connection can be used at once.
fn was_closed_meanwhile(result: &Result<(), Failure>) -> bool {
    match result {
        Err(Failure::Broken { stage, .. }) => *stage == Stage::Mail,
        Err(Failure::Refused { stage, reply }) => *stage == Stage::Mail && reply.code == 421,
        _ => false,
    }
}
