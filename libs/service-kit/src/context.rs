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
use crate::presence::{self, Presence};
use crate::shutdown::STOPPED_WITHIN;
use crate::{
    Build, Config, Readiness, ShutdownError, Tasks, clock, install_crypto_provider, installation, metrics,
};

/// All clones share the connections, keys and tasks, so several services can run in one process.
#[derive(Clone)]
pub struct Context {
    pub config: Arc<Config>,
    pub store: Store,
    pub log: EventLog,
    pub master_key: MasterKey,
    pub links: Links,
    pub tasks: Tasks,
    pub partitions: u32,
    pub readiness: Readiness,
    pub presence: Presence,
}

impl Context {
    /// Reads the master key and connects, waiting at most 60 s for a server that is not available yet. Fails if the key is not that of this
    /// database, if database and log do not belong together (see [`installation::verify`]), or if the number of partitions is not the
    /// configured one. Errors name host and port, never a credential.
    pub async fn connect(config: Config) -> anyhow::Result<Context> {
        install_crypto_provider();
        metrics::install()?;
        let master_key = MasterKey::configured(&config.security)?;
        let (store, log) = tokio::try_join!(
            Box::pin(connections::store_of_service(&config, CONNECTED_WITHIN)),
            Box::pin(connections::event_log(&config, CONNECTED_WITHIN)),
        )?;
        let checked = checked_within_limit(&store, &log, &master_key, &config.security);
        let (partitions, log_store) = Box::pin(checked).await?;
        if config.nats.max_store == 0 {
            log.limit_store(log_store);
        }
        connections::warn_of_few_sessions(&store).await;
        let wanted = config.streams.partitions;
        ensure!(
            !config.streams.partitions_are_set || partitions == wanted,
            "this installation has {partitions} inbox partitions, but streams.partitions is {wanted}: check that this is \
             the right installation"
        );
        let links = Links::new(store.clone(), master_key.clone(), clock::now);
        let tasks = Tasks::new();
        let readiness = Readiness::new(store.clone(), log.clone(), tasks.clone());
        let (config, presence) = (Arc::new(config), Presence::new());
        Ok(Context { config, store, log, master_key, links, tasks, partitions, readiness, presence })
    }

    /// Retries every second while the log is unavailable. Fails if the consumer exists with other settings, or the process stops.
    pub async fn consumer(
        &self,
        stream: StreamName,
        durable: &str,
        settings: ConsumerSettings,
    ) -> Result<Consumer, event_log::Error> {
        loop {
            match self.log.consumer(stream, durable, settings).await {
                Err(error) if !error.is_permanent() => {
                    tracing::warn!(%stream, %error, "cannot open the consumer; retrying");
                    let pause = self.tasks.token().run_until_cancelled(sleep(RETRY_INTERVAL));
                    if pause.await.is_none() {
                        return Err(error);
                    }
                }
                opened => return opened,
            }
        }
    }

    /// Waits until the process must stop, and then at most 30 s until the tasks have ended and the log has received their last
    /// acknowledgements, which would otherwise be lost. An unavailable log is not an error, because it delivers the messages again after
    /// `ack_wait`.
    pub async fn finish(&self) -> Result<(), ShutdownError> {
        self.tasks.stopping().await;
        let until = Instant::now() + STOPPED_WITHIN;
        let finished = self.tasks.finish().await;
        if !matches!(timeout_at(until, self.log.ping()).await, Ok(Ok(()))) {
            tracing::warn!(
                "the last acknowledgements may be lost; the log will redeliver those messages after ack_wait"
            );
        }
        finished
    }

    #[must_use]
    pub fn public_url(&self) -> Option<&str> {
        self.config.gateway.public_url.as_ref().map(|url| url.expose())
    }

    pub fn spawn(&self, name: &'static str, task: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
        self.tasks.spawn(name, task);
    }

    /// Answers roll calls with a report about this process and the services that [`serve`](Self::serve) starts.
    pub fn report_presence(&self, build: Build) {
        self.spawn("presence", presence::answer(self.clone(), build));
    }

    /// If the service ends before the process is stopped, the process stops with exit code 1.
    pub fn serve<F, Fut>(&self, name: &'static str, run: F)
    where
        F: FnOnce(Context) -> Fut,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.presence.add(name);
        let tasks = self.tasks.clone();
        let service = run(self.clone());
        self.spawn(name, async move {
            service.await?;
            ensure!(tasks.token().is_cancelled(), "the service ended before the process was stopped");
            Ok(())
        });
    }
}

/// Repeats the check for up to 60 s while a server is unavailable. Returns the number of partitions and the recorded limit of the log's store.
async fn checked_within_limit(
    store: &Store,
    log: &EventLog,
    master_key: &MasterKey,
    security: &Security,
) -> anyhow::Result<(u32, u64)> {
    let end = Instant::now() + CONNECTED_WITHIN;
    loop {
        match checked(store, log, master_key, security).await {
            Err(error) if is_outage(&error) && Instant::now() < end => {
                tracing::info!(error = format!("{error:#}"), "cannot check the installation; retrying");
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
) -> anyhow::Result<(u32, u64)> {
    let partitions = installation::verify(store, log).await?;
    foreign::refuse(store, master_key, security).await?;
    let log_store = store.database().log_store().await?.unwrap_or(0);
    Ok((partitions, log_store))
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
