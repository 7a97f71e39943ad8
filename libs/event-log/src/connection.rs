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

/// Interval of pings; the client closes a connection after three without an answer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// In a cluster, another server can replace one that hangs. With this interval, the client notices the hang within 3 s.
const CLUSTER_PING_INTERVAL: Duration = Duration::from_secs(1);
const CLUSTER_CONNECT_LIMIT: Duration = Duration::from_millis(1_500);
/// Timeout of the DNS lookup, after which the name counts as a single server.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);
const LONGEST_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Limit over all callers. Further messages wait until one of them is acknowledged.
const MAX_UNCONFIRMED: usize = 4096;

#[derive(Clone)]
pub struct Settings {
    /// Comma-separated `nats://` or `tls://` addresses, perhaps with user and password, or a token.
    pub url: String,
    pub access: Access,
    /// From 1 to 5.
    pub replicas: usize,
    pub max_messages: i64,
    pub connect_timeout: Duration,
    /// Time limit for the server's answer to any request.
    pub ack_timeout: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Access {
    /// PEM file. None means the authorities of the operating system.
    pub ca_file: Option<PathBuf>,
    /// PEM files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A `.creds` file, as `nsc` and Synadia write it.
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

#[derive(Clone)]
pub struct EventLog {
    pub(crate) client: Arc<Client>,
    pub(crate) context: Arc<Context>,
    pub(crate) replicas: usize,
    pub(crate) max_messages: i64,
    pub(crate) ack_timeout: Duration,
    /// Bytes; 0 if there is no limit.
    pub(crate) store_limit: Arc<AtomicU64>,
}

impl EventLog {
    /// Does not retry. A connection that is lost later is restored in the background, with unlimited retries.
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

    /// The server processes messages in order, so its answer shows that it has received every earlier acknowledgement. Fails if the server
    /// runs without JetStream.
    pub async fn ping(&self) -> Result<(), Error> {
        // The client library has a function for this request, but that function cannot read the answer from nats-server 2.9.
        match self.with_timeout("answer", self.context.request("INFO", &())).await? {
            Response::Ok(IgnoredAny) => Ok(()),
            Response::Err { error } => Err(Error::unavailable("answer", error)),
        }
    }

    #[must_use]
    pub fn server_name(&self) -> String {
        self.client.server_info().server_name
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits at most `ack_timeout` for the answer to a request. If the connection is down, the request is not sent: the client would queue
    /// it, and the server could act on it after the caller has given up.
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

/// The addresses contain no credentials, because the client logs them. The credentials are those of the first URL that has any.
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

/// A single name with several addresses of one family, such as that of a headless Kubernetes Service, is a cluster too.
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
