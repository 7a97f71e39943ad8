use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use credentials::MasterKey;
use credentials::Security;
use event_log::EventLog;
use operations::{Caller, MasterKeySource, Operations, apps};
use service_kit::{Config, ServerUrl, connections, installation};
use store::control::app::App;
use store::recovery::shadow::Shadow;
use store::{Settings, Store};
use worker::Outbound;

use crate::data_directory;
use crate::dev_file::DevFile;
use crate::refused::{self, InvalidInput, OrMissing as _};

/// Shorter than the limit of services, because an operator waits at a terminal.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Arguments that select an installation.
#[derive(Debug, clap::Args)]
pub(crate) struct Installation {
    /// Configuration file (TOML) [default: the file that TIDINGS_CONFIG names, if any]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    // The variable must not conflict with `--config`, as clap would have it.
    /// Use the `tidings up` that runs on this data directory [env: TIDINGS_DATA_DIR, unless --config is given] [default: .tidings, if nothing else is configured]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data_dir: Option<PathBuf>,
}

impl Installation {
    /// Returns true if an argument selects the installation.
    pub(crate) fn is_given(&self) -> bool {
        self.config.is_some() || self.data_dir.is_some()
    }

    /// Returns true as well if a running `tidings up` supplied the servers and the master key.
    pub(crate) fn configuration(&self) -> anyhow::Result<(Config, bool)> {
        let mut config = Config::load(self.config.as_deref())?;
        if self.named_directory().is_none() && config.database.url.is_some() {
            return Ok((config, false));
        }
        let running = self.running()?.ok_or_else(|| {
            InvalidInput(
                "no database is configured: set DATABASE_URL or `[database] url` in the configuration file, or start \
                 one here with `tidings up`"
                    .to_owned(),
            )
        })?;
        config.database.url = Some(running.database_url.parse()?);
        config.nats.url = Some(running.nats_url.parse()?);
        config.security.master_key_file = Some(data_directory::master_key_file(&self.data_directory()));
        config.outbound.allow_private = true;
        if let Some((url, _)) = running.console.split_once("/welcome?") {
            config.console.public_url = Some(url.parse()?);
        }
        Ok((config, true))
    }

    /// Returns None if no `tidings up` runs on the default data directory.
    ///
    /// # Errors
    /// No `tidings up` runs on the data directory that the command line or the variable names.
    pub(crate) fn running(&self) -> anyhow::Result<Option<DevFile>> {
        let running = DevFile::read(&self.data_directory())?;
        if let (None, Some(directory)) = (&running, self.named_directory()) {
            bail!(
                "no `tidings up` runs on {0}: start one with `tidings up --data-dir {0}`",
                directory.display()
            );
        }
        Ok(running)
    }

    fn data_directory(&self) -> PathBuf {
        self.named_directory().unwrap_or_else(|| PathBuf::from(data_directory::DEFAULT))
    }

    fn named_directory(&self) -> Option<PathBuf> {
        let of_variable = || std::env::var_os(data_directory::VARIABLE).filter(|path| !path.is_empty());
        match (&self.data_dir, &self.config) {
            (Some(directory), _) => Some(directory.clone()),
            (None, None) => of_variable().map(PathBuf::from),
            (None, Some(_)) => None,
        }
    }

    pub(crate) async fn log(&self) -> anyhow::Result<EventLog> {
        let (config, _) = self.configuration()?;
        connections::event_log(&config, CONNECTED_WITHIN).await
    }

    pub(crate) async fn open_with_log(&self) -> anyhow::Result<ConnectedInstallation> {
        let (config, _) = self.configuration()?;
        let (store, log) = tokio::try_join!(
            connections::store(&config, CONNECTED_WITHIN),
            connections::event_log(&config, CONNECTED_WITHIN)
        )?;
        let partitions = installation::verify(&store, &log).await?;
        store.close().await;
        let url = config.database.url.as_ref().context("no database is configured")?.expose().to_owned();
        let database = Settings { url, max_connections: config.database.max_connections };
        Ok(ConnectedInstallation { database, log, partitions })
    }

    pub(crate) async fn open(&self) -> anyhow::Result<ControlPlane> {
        let (config, running) = self.configuration()?;
        let store = connections::store(&config, CONNECTED_WITHIN).await.with_context(|| {
            if running {
                "`tidings up` has ended without removing its dev.json; start it again"
            } else {
                "check the configured database"
            }
        })?;
        let outbound = Outbound::new(config.outbound.allow_private);
        let console_url = console::console_url(&config);
        let security = config.security;
        let master_key = MasterKeySource::Configured(security.clone());
        let operations = Operations::new(store.clone(), master_key, outbound.allows_private());
        Ok(ControlPlane { store, operations, caller: caller(), outbound, console_url, security })
    }
}

/// A database and an event log that belong together.
pub(crate) struct ConnectedInstallation {
    pub(crate) database: Settings,
    pub(crate) log: EventLog,
    pub(crate) partitions: u32,
}

/// Option that names a database restored from a backup. If it is given, a replay starts from the inbox of that database.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Database restored from a backup of this installation; needed if the log no longer contains its first messages
    #[arg(long, value_name = "URL", env = "BACKUP_DATABASE_URL", hide_env_values = true)]
    backup: Option<ServerUrl>,
}

impl Backup {
    pub(crate) async fn open(&self) -> anyhow::Result<Option<Store>> {
        let Some(url) = &self.backup else { return Ok(None) };
        let opened = Shadow::open_backup(url.expose()).await;
        opened.map(Some).with_context(|| format!("cannot reach the restored backup at {}", url.endpoint()))
    }
}

pub(crate) struct ControlPlane {
    pub(crate) store: Store,
    pub(crate) operations: Operations,
    pub(crate) caller: Caller,
    pub(crate) outbound: Outbound,
    pub(crate) console_url: String,
    security: Security,
}

impl ControlPlane {
    pub(crate) async fn app(&self, name_or_id: &str) -> anyhow::Result<App> {
        apps::find(&self.operations, &self.caller, name_or_id)
            .await
            .or_missing(|| format!("app {name_or_id:?} does not exist; `tidings app list` lists the apps"))
    }

    /// Does not compare the key with the database.
    pub(crate) fn configured_key(&self) -> anyhow::Result<MasterKey> {
        MasterKey::configured(&self.security).map_err(refused::from_secrets)
    }
}

/// Returns the account that called sudo; if sudo was not used, the account of the session, or else the account of the process.
pub(crate) fn caller() -> Caller {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| {
        let account = std::env::var(name).ok()?;
        (!account.is_empty()).then_some(account)
    });
    Caller::of_command(named.unwrap_or_else(account))
}

/// Returns `uid:` and the user id if the account has no name, as in most containers.
fn account() -> String {
    let number = rustix::process::getuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(number.as_str())).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid:{number}"))
}
