use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use local_servers::{NatsServer, Postgres};
use service_kit::Config;

use super::data_directory::DataDirectory;
use super::print_status;

const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Dropping kills the servers.
pub(super) struct Servers {
    postgres: Option<Postgres>,
    nats: Option<NatsServer>,
}

impl Servers {
    /// Starts the servers whose URLs are not configured, and adds their URLs to the configuration.
    pub(super) async fn start(directory: &DataDirectory, config: &mut Config) -> anyhow::Result<Servers> {
        let mut servers = Servers { postgres: None, nats: None };
        match &config.database.url {
            Some(url) => print_status(&format!("using PostgreSQL at {}", url.endpoint()))?,
            None => {
                let files = directory.postgres();
                print_status(&format!("starting PostgreSQL in {}", files.display()))?;
                let postgres = Postgres::start(&files).await?;
                config.database.url = Some(postgres.url().parse()?);
                servers.postgres = Some(postgres);
            }
        }
        match &config.nats.url {
            Some(url) => print_status(&format!("using NATS at {}", url.endpoint()))?,
            None => {
                let files = directory.nats();
                print_status(&format!("starting nats-server in {}", files.display()))?;
                let nats = NatsServer::start_in(&files).await?;
                config.nats.url = Some(nats.url().parse()?);
                servers.nats = Some(nats);
            }
        }
        Ok(servers)
    }

    /// Waits until a server ends unexpectedly.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        loop {
            ticks.tick().await;
            if let Err(failure) = self.check() {
                return failure;
            }
        }
    }

    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(postgres) = &mut self.postgres
            && !postgres.is_running()?
        {
            return Err(ended("PostgreSQL", postgres.log()));
        }
        if let Some(nats) = &mut self.nats
            && !nats.is_running()?
        {
            return Err(ended("nats-server", nats.log()));
        }
        Ok(())
    }

    /// Stops NATS first, then PostgreSQL. Kills a server that does not stop in time.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        if let Some(nats) = self.nats {
            nats.stop().await?;
        }
        if let Some(postgres) = self.postgres {
            postgres.stop().await?;
        }
        Ok(())
    }
}

fn ended(server: &str, log: &Path) -> anyhow::Error {
    anyhow!("{server} has ended; its log {} gives the cause. Start again to continue", log.display())
}
