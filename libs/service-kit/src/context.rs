//! What a service is handed when it starts.

use std::sync::Arc;

use anyhow::ensure;
use credentials::link::Links;
use credentials::secrets::foreign;
use credentials::{MasterKey, Security};
use domain::StreamName;
use event_log::{Consumer, ConsumerSettings, DeclareError, EventLog};
use store::Store;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connections::{self, CONNECTED_WITHIN, RETRY_INTERVAL};
use crate::shutdown::STOPPED_WITHIN;
use crate::{Config, Readiness, ShutdownError, Tasks, clock, install_crypto_provider, installation, metrics};

/// Configuration, connections, keys and tasks of the process. Clones share all of it, so that several services can
/// run in one process.
#[derive(Clone)]
pub struct Context {
    /// The configuration.
    pub config: Arc<Config>,
    /// PostgreSQL.
    pub store: Store,
    /// NATS JetStream.
    pub log: EventLog,
    /// Seals and opens stored secrets.
    pub master_key: MasterKey,
    /// Signs and verifies links of apps.
    pub links: Links,
    /// Every task of the process, and its stop.
    pub tasks: Tasks,
    /// Number of inbox partitions, fixed when the installation was made.
    pub partitions: u32,
    /// Answers readiness probes.
    pub readiness: Readiness,
}

impl Context {
    /// Reads the master key and connects to both servers, waiting for those that are not up yet for at most 60 s.
    ///
    /// # Errors
    /// A setting is missing, the key file is unusable or is not the key of this database, a server cannot be reached in
    /// time, or the two do not belong together (see [`installation::verify`]), or have another number of partitions than is
    /// set. Names host and port, never a credential.
    pub async fn connect(config: Config) -> anyhow::Result<Context> {
        install_crypto_provider();
        metrics::install()?;
        let master_key = MasterKey::configured(&config.security)?;
        let (store, log) = tokio::try_join!(
            Box::pin(connections::store_of_service(&config, CONNECTED_WITHIN)),
            Box::pin(connections::event_log(&config, CONNECTED_WITHIN)),
        )?;
        let checked = checked_within_limit(&store, &log, &master_key, &config.security);
        let partitions = Box::pin(checked).await?;
        connections::warn_of_few_sessions(&store).await;
        let wanted = config.streams.partitions;
        ensure!(
            !config.streams.partitions_are_set || partitions == wanted,
            "this installation has {partitions} inbox partitions, and streams.partitions is {wanted}: is it the right one?"
        );
        let links = Links::new(store.clone(), master_key.clone(), clock::now);
        let tasks = Tasks::new();
        let readiness = Readiness::new(store.clone(), log.clone(), tasks.clone());
        Ok(Context { config: Arc::new(config), store, log, master_key, links, tasks, partitions, readiness })
    }

    /// Opens a durable consumer. Waits for a log that is away, until the process stops.
    ///
    /// # Errors
    /// The consumer is there and differs, or the process stops.
    pub async fn consumer(
        &self,
        stream: StreamName,
        durable: &str,
        settings: ConsumerSettings,
    ) -> Result<Consumer, event_log::Error> {
        loop {
            match self.log.consumer(stream, durable, settings).await {
                Err(error) if !error.is_permanent() => {
                    tracing::warn!(%stream, %error, "no consumer yet; trying again");
                    let pause = self.tasks.token().run_until_cancelled(sleep(RETRY_INTERVAL));
                    if pause.await.is_none() {
                        return Err(error);
                    }
                }
                opened => return opened,
            }
        }
    }

    /// Waits for the stop, then at most 30 s for the tasks, and until the log has read what they sent last: a process that
    /// ended sooner could take answers to messages along.
    ///
    /// # Errors
    /// As [`Tasks::finish`]. A log that is away is none: the messages come again after `ack_wait`.
    pub async fn finish(&self) -> Result<(), ShutdownError> {
        self.tasks.stopping().await;
        let until = Instant::now() + STOPPED_WITHIN;
        let finished = self.tasks.finish().await;
        if !matches!(timeout_at(until, self.log.ping()).await, Ok(Ok(()))) {
            tracing::warn!(
                "the last answers to messages may be lost; their messages come again after ack_wait"
            );
        }
        finished
    }

    /// URL of the API as clients reach it (`gateway.public_url`), if it is set.
    #[must_use]
    pub fn public_url(&self) -> Option<&str> {
        self.config.gateway.public_url.as_ref().map(|url| url.expose())
    }

    /// Runs `task`, which may end by itself; see [`Tasks::spawn`].
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.tasks.spawn(name, task);
    }

    /// Runs a service, which ends with the process alone: where it returns earlier, the process stops with exit
    /// code 1.
    pub fn serve<F, Fut>(&self, name: &'static str, run: F)
    where
        F: FnOnce(Context) -> Fut,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let tasks = self.tasks.clone();
        let service = run(self.clone());
        self.spawn(name, async move {
            service.await?;
            ensure!(tasks.token().is_cancelled(), "the service ended by itself");
            Ok(())
        });
    }
}

/// Checks the installation. A server that goes away again right after the connection is waited for like one that is not up yet.
async fn checked_within_limit(
    store: &Store,
    log: &EventLog,
    master_key: &MasterKey,
    security: &Security,
) -> anyhow::Result<u32> {
    let end = Instant::now() + CONNECTED_WITHIN;
    loop {
        match checked(store, log, master_key, security).await {
            Err(error) if is_outage(&error) && Instant::now() < end => {
                tracing::info!(
                    error = format!("{error:#}"),
                    "the installation cannot be checked; trying again"
                );
                sleep(RETRY_INTERVAL).await;
            }
            checked => return checked,
        }
    }
}

async fn checked(
    store: &Store,
    log: &EventLog,
    master_key: &MasterKey,
    security: &Security,
) -> anyhow::Result<u32> {
    let partitions = installation::verify(store, log).await?;
    foreign::refuse(store, master_key, security).await?;
    Ok(partitions)
}

fn is_outage(error: &anyhow::Error) -> bool {
    if let Some(error) = error.downcast_ref::<event_log::Error>() {
        return !error.is_permanent();
    }
    if let Some(error) = error.downcast_ref::<store::Error>() {
        return error.is_unavailable();
    }
    matches!(error.downcast_ref(), Some(DeclareError::Unavailable(_)))
}
