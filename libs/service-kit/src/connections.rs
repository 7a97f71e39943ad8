use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, anyhow};
use event_log::{Access, ConnectError, EventLog};
use store::Store;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Config, ServerUrl};

/// Enough even if PostgreSQL and NATS start at the same time as this process on a small machine.
pub const CONNECTED_WITHIN: Duration = Duration::from_secs(60);
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const LOG_CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// If the log does not confirm a message in time, the gateway answers 503.
pub(crate) const LOG_ACK_LIMIT: Duration = Duration::from_secs(5);

/// Retries for up to `limit`, but returns a permanent error, such as a wrong password, at once. Errors name host and port, never a
/// credential.
pub async fn store(config: &Config, limit: Duration) -> anyhow::Result<Store> {
    store_by(config, limit, |settings| async move { Store::connect(&settings).await }).await
}

/// Refuses a connection pooler that shares sessions between clients. Commands use [`store`]: the check opens a second session for a moment,
/// which a command that needs exclusive access would mistake for another client.
pub(crate) async fn store_of_service(config: &Config, limit: Duration) -> anyhow::Result<Store> {
    let connect = |settings: store::Settings| async move {
        let store = Store::connect(&settings).await?;
        store.refuse_shared_sessions().await?;
        Ok(store)
    };
    store_by(config, limit, connect).await
}

async fn store_by<Attempt: Future<Output = Result<Store, store::Error>>>(
    config: &Config,
    limit: Duration,
    connect: impl Fn(store::Settings) -> Attempt,
) -> anyhow::Result<Store> {
    let url = config.database.url.as_ref();
    let url = url.context("database.url is not set: set TIDINGS_DATABASE__URL or DATABASE_URL")?;
    let settings =
        store::Settings { url: url.expose().to_owned(), max_connections: config.database.max_connections };
    let connect = || connect(settings.clone());
    retry("PostgreSQL", url, limit, store::Error::is_permanent_refusal, connect).await
}

/// Retries for up to `limit`, but returns a permanent error, such as a certificate of an unknown authority, at once. Errors name host and
/// port, never a credential.
pub async fn event_log(config: &Config, limit: Duration) -> anyhow::Result<EventLog> {
    let url = config.nats.url.as_ref();
    let url = url.context("nats.url is not set: set TIDINGS_NATS__URL or NATS_URL")?;
    let settings = event_log::Settings {
        url: url.expose().to_owned(),
        access: Access {
            ca_file: config.nats.ca_file.clone(),
            certificate: config.nats.cert_file.clone().zip(config.nats.key_file.clone()),
            credentials_file: config.nats.credentials_file.clone(),
        },
        replicas: config.nats.replicas,
        max_messages: config.nats.max_messages,
        connect_timeout: LOG_CONNECT_LIMIT,
        ack_timeout: LOG_ACK_LIMIT,
    };
    let connect = async || EventLog::connect(settings.clone()).await;
    let log = retry("NATS", url, limit, ConnectError::is_permanent, connect).await?;
    log.limit_store(config.nats.max_store);
    Ok(log)
}

async fn retry<T, E: Display, Attempt: Future<Output = Result<T, E>>>(
    server: &str,
    url: &ServerUrl,
    limit: Duration,
    is_permanent: impl Fn(&E) -> bool,
    connect: impl Fn() -> Attempt,
) -> anyhow::Result<T> {
    let endpoint = url.endpoint();
    let end = Instant::now() + limit;
    let mut reason = "no answer".to_owned();
    loop {
        let next = Instant::now() + RETRY_INTERVAL;
        match timeout_at(end, connect()).await {
            Ok(Ok(connected)) => {
                tracing::info!(server, endpoint, "connected to a server");
                return Ok(connected);
            }
            Ok(Err(error)) if is_permanent(&error) => {
                return Err(anyhow!("{server} at {endpoint} refuses the connection: {error}"));
            }
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => {}
        }
        if next >= end {
            return Err(anyhow!("no connection to {server} at {endpoint} within {limit:?}: {reason}"));
        }
        tracing::info!(server, endpoint, reason, "cannot reach a server yet; retrying");
        sleep_until(next).await;
    }
}

/// Warns if PostgreSQL may have too few sessions: the shortage would otherwise show only under load, as time-outs.
pub(crate) async fn warn_of_few_sessions(store: &Store) {
    let sessions = match store.server_sessions().await {
        Ok(sessions) => sessions,
        Err(error) => {
            tracing::warn!(%error, "cannot read PostgreSQL's session limit; not comparing it with the size of the pool");
            return;
        }
    };
    let own = store.connections();
    let wanted = sessions.open + u64::from(own.max - own.used - own.idle);
    if wanted > sessions.allowed {
        tracing::warn!(
            allowed = sessions.allowed,
            open = sessions.open,
            pool = own.max,
            "PostgreSQL allows too few connections for this process and its other clients: raise max_connections of \
             PostgreSQL, or lower database.max_connections"
        );
    }
}
