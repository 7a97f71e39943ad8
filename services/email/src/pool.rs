//! Connections to one server, kept for the next message.
//!
//! A connection that is in use belongs to the exchange that uses it, and comes back only when that has ended as the
//! protocol foresees. An exchange that is dropped or runs out of time takes its connection along, so nothing that
//! was half said is ever continued by another message.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::connection::{Connection, Failure, Reply, Stage};
use crate::message::OutgoingMail;
use crate::route::{Route, TlsError};
use crate::settings::SmtpSettings;

/// Bounds of the connections to one server.
#[derive(Clone, Debug)]
pub struct PoolLimits {
    /// Connections, idle ones included.
    pub connections: usize,
    /// Messages sent on one connection before it is closed; many servers close it themselves after some hundred.
    pub messages_per_connection: u32,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Time for one message, from waiting for a connection to the last answer.
    pub exchange: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            connections: 32,
            messages_per_connection: 200,
            idle: Duration::from_secs(30),
            exchange: Duration::from_secs(30),
        }
    }
}

pub(crate) struct Pool {
    settings: SmtpSettings,
    route: Route,
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
    pub(crate) fn new(settings: SmtpSettings, limits: PoolLimits) -> Result<Self, TlsError> {
        let route = Route::new(&settings)?;
        let room = Semaphore::new(limits.connections);
        Ok(Pool { settings, route, limits, room, idle: Mutex::new(Vec::new()) })
    }

    /// The settings that its connections were made with.
    pub(crate) fn settings(&self) -> &SmtpSettings {
        &self.settings
    }

    /// Sends one message, within the time limit.
    pub(crate) async fn send(&self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let mut stage = Stage::Connect;
        let result = timeout(self.limits.exchange, self.exchange(mail, &mut stage)).await;
        result.unwrap_or(Err(Failure::TimedOut { stage }))
    }

    async fn exchange(&self, mail: &OutgoingMail, stage: &mut Stage) -> Result<Reply, Failure> {
        // Never closed, so this waits for room and cannot fail.
        let _permit = self.room.acquire().await;
        let (mut connection, reused) = match self.take() {
            Some(connection) => (connection, true),
            None => (self.open(stage).await?, false),
        };
        let mut result = connection.deliver(mail, stage).await;
        if reused && was_closed_meanwhile(&result) {
            connection = self.open(stage).await?;
            result = connection.deliver(mail, stage).await;
        }
        self.put_back(connection);
        result
    }

    async fn open(&self, stage: &mut Stage) -> Result<Connection, Failure> {
        Connection::open(&self.route, self.settings.login.as_ref(), stage).await
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
fn was_closed_meanwhile(result: &Result<Reply, Failure>) -> bool {
    match result {
        Err(Failure::Broken { stage, .. }) => *stage == Stage::Mail,
        Err(Failure::Refused { stage, reply }) => *stage == Stage::Mail && reply.code == 421,
        _ => false,
    }
}
