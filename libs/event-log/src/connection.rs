//! The connection to the server.

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use serde::de::IgnoredAny;
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::error::{ConnectError, Error};

/// Ping interval of the client. The client closes a connection after three pings without an answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Ping interval in a cluster, in which another server can replace a server that hangs. With this interval, the client notices
/// the hang within 3 s.
const CLUSTER_PING_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one attempt to connect in a cluster.
const CLUSTER_CONNECT_LIMIT: Duration = Duration::from_millis(1_500);
/// Timeout of the DNS lookup of the server's name. After a timeout, the name counts as a single server.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);
const LONGEST_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of published messages, over all callers, that wait for an acknowledgement. Further messages are sent only after
/// one of them is acknowledged.
const MAX_UNCONFIRMED: usize = 4096;

/// Address of the event log, size of its streams, and timeouts.
#[derive(Clone)]
pub struct Settings {
    /// `nats://` or `tls://` addresses, separated by commas; may contain user and password, or a token.
    pub url: String,
    /// Files with certificates and credentials.
    pub access: Access,
    /// Number of copies of each stream, 1 to 5.
    pub replicas: usize,
    /// Maximum number of messages in a stream.
    pub max_messages: i64,
    /// Timeout of one attempt to connect.
    pub connect_timeout: Duration,
    /// Time limit for the server's acknowledgement of a published message, and for its answer to any other request.
    pub ack_timeout: Duration,
}

/// Certificates and credentials in addition to the credentials in the URL.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// File with the certificates (PEM) of the authorities that may sign the server's certificate. None means the authorities of
    /// the operating system.
    pub ca_file: Option<PathBuf>,
    /// Files with the certificate (PEM) of the client and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// File with the JWT and the seed of a NATS user, as `nsc` and Synadia write it (`.creds`).
    pub credentials_file: Option<PathBuf>,
}

impl Access {
    async fn apply_to(&self, mut options: ConnectOptions) -> Result<ConnectOptions, ConnectError> {
        if let Some(file) = &self.ca_file {
            options = options.add_root_certificates(file.clone()).require_tls(true);
        }
        if let Some((certificate, key)) = &self.certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
        }
        if let Some(file) = &self.credentials_file {
            // The client's error for a malformed file does not name the file.
            options = options.credentials_file(file).await.map_err(|error| {
                ConnectError::permanent(format!("nats.credentials_file {}: {error}", file.display()))
            })?;
        }
        Ok(options)
    }
}

/// Handle on the event log. All clones share one connection.
#[derive(Clone)]
pub struct EventLog {
    pub(crate) client: Arc<Client>,
    pub(crate) context: Arc<Context>,
    pub(crate) replicas: usize,
    pub(crate) max_messages: i64,
    pub(crate) ack_timeout: Duration,
    /// See [`limit_store`](Self::limit_store); 0 if there is no limit.
    pub(crate) store_limit: Arc<AtomicU64>,
}

impl EventLog {
    /// Connects to the server. If the connection is lost later, the client reconnects in the background, with unlimited retries.
    ///
    /// # Errors
    /// Returns an error if no server could be reached, or if the credentials or a certificate were refused. This call does not
    /// retry. If [`ConnectError::is_permanent`] returns true, a retry by the caller cannot help.
    pub async fn connect(settings: Settings) -> Result<EventLog, ConnectError> {
        let (servers, options) = servers(&settings.url)?;
        let (ping_interval, connect_limit) = if is_cluster(&servers).await {
            (CLUSTER_PING_INTERVAL, CLUSTER_CONNECT_LIMIT.min(settings.connect_timeout))
        } else {
            (PING_INTERVAL, settings.connect_timeout)
        };
        let options = settings.access.apply_to(options).await?;
        let client = options
            .name("tidings")
            .connection_timeout(connect_limit)
            .request_timeout(Some(settings.ack_timeout))
            .ping_interval(ping_interval)
            .reconnect_delay_callback(reconnect_delay)
            .connect(servers)
            .await
            .map_err(|error| ConnectError::of_client(&error))?;
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
            store_limit: Arc::default(),
        })
    }

    /// Pings JetStream. The server processes messages in order, so its answer shows that it has received every acknowledgement
    /// that was sent before the ping.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable, does not answer within the time limit, or runs without JetStream.
    pub async fn ping(&self) -> Result<(), Error> {
        // The client library has a function for this request, but that function cannot read the answer from nats-server 2.9.
        match self.with_timeout("answer", self.context.request("INFO", &())).await? {
            Response::Ok(IgnoredAny) => Ok(()),
            Response::Err { error } => Err(Error::unavailable("answer", error)),
        }
    }

    /// Name of the server to which the client is connected, or was connected last.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.client.server_info().server_name
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits at most `ack_timeout` for the answer to a request. If the connection is down, the request is not sent. Otherwise the
    /// client would queue the request, and the server could act on it after the caller has given up.
    pub(crate) async fn with_timeout<T, E: Display>(
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

/// Splits the URLs into server addresses and connect options. The addresses contain no credentials, because the client logs
/// addresses. The options contain the user and password, or the token, of the first URL that has any.
fn servers(urls: &str) -> Result<(Vec<ServerAddr>, ConnectOptions), ConnectError> {
    let unusable = ConnectError::permanent;
    let mut credentials = None;
    let mut servers = Vec::new();
    for url in urls.split(',').map(str::trim) {
        let server: ServerAddr = url.parse().map_err(|error: io::Error| unusable(error.to_string()))?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = server.username().map(decoded);
        credentials = credentials.or_else(|| match (user, server.password().map(decoded)) {
            (None, _) => None,
            (Some(token), None) => Some(ConnectOptions::with_token(token)),
            (Some(user), Some(password)) => Some(ConnectOptions::with_user_and_password(user, password)),
        });
        let mut url = server.into_inner();
        let stripped = url.set_username("").and_then(|()| url.set_password(None));
        stripped.map_err(|()| unusable("the address of a server names no host".to_owned()))?;
        servers.push(ServerAddr::from_url(url).map_err(|error| unusable(error.to_string()))?);
    }
    Ok((servers, credentials.unwrap_or_default()))
}

/// Returns true if the servers form a cluster: there are several names, or the only name has several addresses of one family. A
/// headless Kubernetes Service has such a name.
async fn is_cluster(servers: &[ServerAddr]) -> bool {
    let [server] = servers else { return true };
    let Ok(Ok(addresses)) = timeout(LOOKUP_LIMIT, lookup_host((server.host(), server.port()))).await else {
        return false;
    };
    let (v4, v6): (HashSet<SocketAddr>, HashSet<SocketAddr>) = addresses.partition(SocketAddr::is_ipv4);
    v4.len() > 1 || v6.len() > 1
}

fn reconnect_delay(attempts: usize) -> Duration {
    let exponent = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
    Duration::from_millis(2_u64.pow(exponent)).min(LONGEST_RECONNECT_DELAY)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_that_the_client_may_log_hold_no_credentials() {
        for urls in [
            "nats://ada:planted%2Fword@127.0.0.1:4222",
            "nats://planted@127.0.0.1:4222",
            "tls://one.example:4222, tls://ada:planted@two.example:4222",
        ] {
            let (servers, _) = servers(urls).unwrap();
            assert_eq!(servers.len(), urls.split(',').count());
            assert!(!format!("{servers:?}").contains("planted"), "{servers:?}");
        }
    }
}
