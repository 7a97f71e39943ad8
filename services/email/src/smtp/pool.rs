//! Pool of connections to one mail server.
//!
//! While an email is sent, its task owns the connection. The task returns the connection to the pool only if the server
//! is in a defined state. If the task is dropped or times out, the connection is closed, so that the next email never
//! starts in the middle of another one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use reqwest::Client;
use worker::{Lease, Outbound};

use super::connection::Connection;
use super::failure::{Failure, Stage};
use super::limits::PoolLimits;
use super::login::Credentials;
use super::oauth::Tokens;
use super::relay::Relay;
use super::reply::Reply;
use super::settings::SmtpSettings;
use super::tls::TlsError;
use crate::message::OutgoingMail;

pub(crate) struct Pool {
    settings: SmtpSettings,
    relay: Relay,
    credentials: Option<Credentials>,
    limits: PoolLimits,
    /// Permits for connections in use. A task acquires a permit before it takes or opens a connection, and releases the permit only after
    /// the connection is idle again or closed. So used and idle connections together never exceed the limit.
    room: Semaphore,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl Pool {
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

    /// Sends one email. Until the final dot, nothing is accepted, so the call ends with the claim of the delivery: another worker may then
    /// send the email.
    pub(crate) async fn send(&self, mail: OutgoingMail, lease: &Lease) -> Result<Reply, Failure> {
        let others = mail.others.len();
        let sending = Box::pin(self.send_content(mail));
        let sent = lease.while_held(sending).await.unwrap_or(Err(Failure::Abandoned));
        let (mut connection, _permit) = sent?;
        let result = connection.accepted(others).await;
        self.put_back(connection);
        result
    }

    async fn send_content(&self, mail: OutgoingMail) -> Result<(Connection, SemaphorePermit<'_>), Failure> {
        // The semaphore is never closed, so an error is a timeout.
        let permit = timeout(self.limits.queueing, self.room.acquire()).await;
        let Ok(Ok(permit)) = permit else { return Err(Failure::Busy) };
        let deadline = self.deadline();
        let mut connection = match self.take() {
            Some(connection) => self.begin_over_idle(connection, &mail, deadline).await?,
            None => self.begin(self.open(deadline).await?, &mail, deadline).await?,
        };
        connection.send_content(&mail).await?;
        Ok((connection, permit))
    }

    /// Begins over an idle connection, or over a new one if the server had closed the idle one.
    async fn begin_over_idle(
        &self,
        mut connection: Connection,
        mail: &OutgoingMail,
        deadline: Instant,
    ) -> Result<Connection, Failure> {
        match connection.begin(mail, deadline).await {
            Ok(()) => Ok(connection),
            Err(failure) if was_closed_meanwhile(&failure) => {
                drop(connection);
                self.begin(self.open(deadline).await?, mail, deadline).await
            }
            Err(failure) => {
                self.put_back(connection);
                Err(failure)
            }
        }
    }

    async fn begin(
        &self,
        mut connection: Connection,
        mail: &OutgoingMail,
        deadline: Instant,
    ) -> Result<Connection, Failure> {
        match connection.begin(mail, deadline).await {
            Ok(()) => Ok(connection),
            Err(failure) => {
                self.put_back(connection);
                Err(failure)
            }
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.times.before_dot
    }

    pub(super) async fn open(&self, deadline: Instant) -> Result<Connection, Failure> {
        // Boxed, because a handshake needs much memory, and most emails find an open connection.
        Box::pin(Connection::open(&self.relay, self.credentials.as_ref(), self.limits.times, deadline)).await
    }

    pub(super) fn describe(&self) -> String {
        self.relay.describe()
    }

    /// Takes the most recently used connection: the others stay idle longer, so surplus connections expire.
    fn take(&self) -> Option<Connection> {
        let idle = self.lock().pop()?;
        (idle.since.elapsed() < self.limits.idle).then_some(idle.connection)
    }

    fn put_back(&self, connection: Connection) {
        if connection.is_usable() && connection.messages() < self.limits.messages_per_connection {
            self.lock().push(IdleConnection { connection, since: Instant::now() });
        }
    }

    pub(crate) fn take_expired(&self) -> Vec<Connection> {
        let expired = |idle: &mut IdleConnection| idle.since.elapsed() >= self.limits.idle;
        self.lock().extract_if(.., expired).map(|idle| idle.connection).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the server had closed the connection while it was idle. No part of the email was accepted, so the
/// email can be sent over a new connection at once.
fn was_closed_meanwhile(failure: &Failure) -> bool {
    match failure {
        Failure::Broken { stage, .. } => *stage == Stage::Mail,
        Failure::Refused { stage, reply } => *stage == Stage::Mail && reply.code == 421,
        _ => false,
    }
}
