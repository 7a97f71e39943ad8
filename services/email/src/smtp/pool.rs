//! Pool of connections to one mail server.
//!
//! While an email is sent, its task owns the connection. The task returns the connection to the pool only if the server
//! is in a defined state. If the task is dropped or times out, the connection is closed, so that the next email never
//! starts in the middle of another one.

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
use super::relay::Relay;
use super::settings::SmtpSettings;
use super::tls::TlsError;
use crate::message::OutgoingMail;

/// Limits of the connections to one server.
#[derive(Clone, Debug)]
pub struct PoolLimits {
    /// Maximum number of connections, including idle ones.
    pub connections: usize,
    /// Number of emails after which a connection is closed. Many servers close a connection after a few hundred emails.
    pub messages_per_connection: u32,
    /// Time for which an unused connection stays open.
    pub idle: Duration,
    /// Time limit for loading attachments and the unsubscribe link. Only a few large emails may be in memory at once; the
    /// limit includes the wait for other large emails.
    pub preparing: Duration,
    /// Time limit for getting a connection, including the wait for a permit and the time to open a connection.
    pub connecting: Duration,
    /// Time limit for the commands before the content. It includes opening a new connection if the server had closed
    /// the idle connection.
    pub commands: Duration,
    /// Time limit for sending the content and receiving the reply. After this timeout the outcome is unknown.
    pub content: Duration,
}

impl PoolLimits {
    /// Derives the limits from the length of a lease. The worker ends a call after three fifths of the lease, and
    /// the limits add up to less than that. The pool must time out first, because only the pool knows whether the email
    /// may have been accepted.
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
    relay: Relay,
    credentials: Option<Credentials>,
    limits: PoolLimits,
    /// One permit per connection in use. A task acquires a permit before it takes or opens a connection, and releases
    /// the permit only after the connection is idle again or closed. So used and idle connections together never exceed
    /// the limit.
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
        let relay = Relay::new(&settings, outbound)?;
        let room = Semaphore::new(limits.connections);
        let tokens = |token: &_| Tokens::of(token, outbound, client);
        let credentials = settings.login.clone().map(|login| Credentials::new(login, tokens));
        Ok(Pool { settings, relay, credentials, limits, room, idle: Mutex::new(Vec::new()) })
    }

    pub(crate) fn settings(&self) -> &SmtpSettings {
        &self.settings
    }

    /// Sends one email. If a time limit expires before the content is sent, the server has certainly not accepted the
    /// email.
    pub(crate) async fn send(&self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let connected_by = Instant::now() + self.limits.connecting;
        // The semaphore is never closed, so an error is a timeout.
        let _permit = timeout_at(connected_by, self.room.acquire()).await.map_err(|_| Failure::Busy)?;
        let mut stage = Stage::Connect;
        let connected = timeout_at(connected_by, self.connect(&mut stage)).await;
        let (connection, reused) = connected.unwrap_or(Err(Failure::TimedOut { stage }))?;
        let begun_by = Instant::now() + self.limits.commands;
        let begun = timeout_at(begun_by, self.begin(connection, reused, mail, &mut stage)).await;
        let mut connection = begun.unwrap_or(Err(Failure::TimedOut { stage }))?;
        // A process that was paused during the commands reads the replies before it notices the time. Meanwhile, the lease may have
        // ended, and another worker may be sending the email.
        if Instant::now() > begun_by {
            return Err(Failure::TimedOut { stage });
        }
        let finished = timeout(self.limits.content, connection.finish(mail)).await;
        let result = finished.map_err(|_| Failure::TimedOut { stage: Stage::Content })?;
        self.put_back(connection);
        result
    }

    /// Returns an idle connection and true, or a new connection and false.
    async fn connect(&self, stage: &mut Stage) -> Result<(Connection, bool), Failure> {
        match self.take() {
            Some(connection) => Ok((connection, true)),
            None => Ok((self.open(stage).await?, false)),
        }
    }

    /// Sends the commands before the content of `mail`. Returns the connection on which the server waits for the
    /// content: `connection`, or a new one if the server had closed `connection` while it was idle.
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
        // Boxed, because a handshake needs much memory, and most emails find an open connection.
        Box::pin(Connection::open(&self.relay, self.credentials.as_ref(), stage)).await
    }

    /// Server and encryption, for display.
    pub(super) fn describe(&self) -> String {
        self.relay.describe()
    }

    /// Takes the most recently used idle connection. The others stay idle longer, so surplus connections expire.
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

/// Returns true if the server had closed the connection while it was idle. No part of the email was accepted, so the
/// email can be sent over a new connection at once.
fn was_closed_meanwhile(result: &Result<(), Failure>) -> bool {
    match result {
        Err(Failure::Broken { stage, .. }) => *stage == Stage::Mail,
        Err(Failure::Refused { stage, reply }) => *stage == Stage::Mail && reply.code == 421,
        _ => false,
    }
}
