//! The connection to the server, shared by everything in this crate.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::error::{ConnectError, Error};

/// The client asks for a sign of life this often, and gives a connection up after three without an answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const LONGEST_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Publishes without an acknowledgement, over all callers; the next one waits for a place.
const MAX_UNCONFIRMED: usize = 4096;

/// How to reach the log, and how its streams are laid out.
#[derive(Clone)]
pub struct Settings {
    /// `nats://` or `tls://` addresses, separated by commas; may contain user and password, or a token.
    pub url: String,
    /// Copies of each stream, 1 to 5.
    pub replicas: usize,
    /// Messages a stream holds before it refuses more.
    pub max_messages: i64,
    /// Limit for one attempt to connect.
    pub connect_timeout: Duration,
    /// Limit for the acknowledgement of a published message and for the answer to any other request.
    pub ack_timeout: Duration,
}

/// A handle on the log. Clones share one connection.
#[derive(Clone)]
pub struct EventLog {
    pub(crate) client: Arc<Client>,
    pub(crate) context: Arc<Context>,
    pub(crate) replicas: usize,
    pub(crate) max_messages: i64,
    pub(crate) ack_timeout: Duration,
}

impl EventLog {
    /// Connects. Once this has succeeded, a lost connection is restored in the background for as long as it takes.
    ///
    /// # Errors
    /// When no server could be reached or the credentials were refused; nothing is retried then.
    pub async fn connect(settings: Settings) -> Result<EventLog, ConnectError> {
        let servers: Vec<&str> = settings.url.split(',').map(str::trim).collect();
        let client = credentials(&servers)?
            .name("tidings")
            .connection_timeout(settings.connect_timeout)
            .request_timeout(Some(settings.ack_timeout))
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(reconnect_delay)
            .connect(servers)
            .await
            .map_err(|error| ConnectError { reason: error.to_string() })?;
        let context = ContextBuilder::new()
            .timeout(settings.ack_timeout)
            .ack_timeout(settings.ack_timeout)
            .max_ack_inflight(MAX_UNCONFIRMED)
            .build(client.clone());
        Ok(EventLog {
            client: Arc::new(client),
            context: Arc::new(context),
            replicas: settings.replicas,
            max_messages: settings.max_messages,
            ack_timeout: settings.ack_timeout,
        })
    }

    /// Asks JetStream for a sign of life, for readiness checks. The server reads in order: where it answers, it has read
    /// every answer to a message that was sent before.
    ///
    /// # Errors
    /// When the server is away, does not answer within the time limit, or runs without JetStream.
    pub async fn ping(&self) -> Result<(), Error> {
        // The client's own account query cannot read the answer of nats-server 2.9.
        match self.bounded("answer", self.context.request("INFO", &())).await? {
            Response::Ok(IgnoredAny) => Ok(()),
            Response::Err { error } => Err(Error::unavailable("answer", error)),
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Awaits a request to the server within the time limit. While the connection is down it is not even sent:
    /// the client would queue it, and the server would act on it after we have given up.
    pub(crate) async fn bounded<T, E: Display>(
        &self,
        action: impl Into<String>,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        if !self.is_connected() {
            return Err(Error::unavailable(action, "not connected"));
        }
        match timeout(self.ack_timeout, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Error::unavailable(action, error)),
            Err(_) => Err(Error::unavailable(action, "no answer in time")),
        }
    }
}

/// The user and password, or the token, of the first address that has any: the client by itself ignores what an
/// address says of them.
fn credentials(servers: &[&str]) -> Result<ConnectOptions, ConnectError> {
    for server in servers {
        let server: ServerAddr =
            server.parse().map_err(|error: std::io::Error| ConnectError { reason: error.to_string() })?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = server.username().map(decoded);
        match (user, server.password().map(decoded)) {
            (None, _) => {}
            (Some(token), None) => return Ok(ConnectOptions::with_token(token)),
            (Some(user), Some(password)) => {
                return Ok(ConnectOptions::with_user_and_password(user, password));
            }
        }
    }
    Ok(ConnectOptions::new())
}

fn reconnect_delay(attempts: usize) -> Duration {
    let exponent = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
    Duration::from_millis(2_u64.pow(exponent)).min(LONGEST_RECONNECT_DELAY)
}
