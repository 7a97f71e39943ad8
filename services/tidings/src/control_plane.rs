//! Access to apps, providers and templates: the database and the master key, and nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use credentials::MasterKey;
use credentials::Security;
use credentials::secrets::foreign;
use event_log::EventLog;
use service_kit::{Config, ServerUrl, connections, installation};
use store::control::app::App;
use store::recovery::shadow::Shadow;
use store::{Settings, Store};
use worker::Outbound;

use crate::data_directory;
use crate::dev_file::DevFile;
use crate::refused::Refused;

/// A command at a terminal has no patience for servers that may come up later.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);

/// Which installation a command is for.
#[derive(Debug, clap::Args)]
pub(crate) struct Installation {
    /// Configuration file (TOML); without it, the one that TIDINGS_CONFIG names, if any
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use what `tidings up` runs on this data directory [default: .tidings, where nothing else is configured]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data_dir: Option<PathBuf>,
}

impl Installation {
    /// What the arguments, the environment and a running `tidings up` add up to, and whether that one is meant.
    pub(crate) fn configuration(&self) -> anyhow::Result<(Config, bool)> {
        let mut config = Config::load(self.config.as_deref())?;
        let default = Path::new(data_directory::DEFAULT);
        let running = match &self.data_dir {
            Some(directory) => {
                let running = DevFile::read(directory)?.with_context(|| {
                    format!(
                        "nothing runs on {0}: start it with `tidings up --data-dir {0}`",
                        directory.display()
                    )
                })?;
                Some((directory.as_path(), running))
            }
            None if config.database.url.is_none() => {
                let running = DevFile::read(default)?.ok_or_else(|| {
                    Refused(
                        "no database is configured: set DATABASE_URL or `[database] url` in the configuration \
                         file, or start one with `tidings up` here"
                            .to_owned(),
                    )
                })?;
                Some((default, running))
            }
            None => None,
        };
        if let Some((directory, running)) = &running {
            config.database.url = Some(running.database_url.parse()?);
            config.nats.url = Some(running.nats_url.parse()?);
            config.security.master_key_file = Some(data_directory::master_key_file(directory));
            config.outbound.allow_private = true;
        }
        Ok((config, running.is_some()))
    }

    /// Connects to both servers, and checks that they belong together.
    pub(crate) async fn open_with_log(&self) -> anyhow::Result<Installed> {
        let (config, _) = self.configuration()?;
        let (store, log) = tokio::try_join!(
            connections::store(&config, CONNECTED_WITHIN),
            connections::event_log(&config, CONNECTED_WITHIN)
        )?;
        let partitions = installation::verify(&store, &log).await?;
        store.close().await;
        let url = config.database.url.as_ref().context("a configured database")?.expose().to_owned();
        let database = Settings { url, max_connections: config.database.max_connections };
        Ok(Installed { database, log, partitions })
    }

    /// Connects to the database alone.
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
        Ok(ControlPlane { store, outbound, security: config.security })
    }
}

/// Database and log, which belong together.
pub(crate) struct Installed {
    /// How to reach the database.
    pub(crate) database: Settings,
    pub(crate) log: EventLog,
    /// Inbox partitions.
    pub(crate) partitions: u32,
}

/// A database that was restored from a backup, whose inbox a replay can start from.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Database restored from a backup of this installation, for a log that no longer starts at its beginning
    #[arg(long, value_name = "URL", env = "BACKUP_DATABASE_URL", hide_env_values = true)]
    backup: Option<ServerUrl>,
}

impl Backup {
    /// Connects to it, where one is named.
    pub(crate) async fn open(&self) -> anyhow::Result<Option<Store>> {
        let Some(url) = &self.backup else { return Ok(None) };
        let opened = Shadow::open_backup(url.expose()).await;
        opened
            .map(Some)
            .with_context(|| format!("the restored backup at {} cannot be reached", url.endpoint()))
    }
}

/// What operators change.
pub(crate) struct ControlPlane {
    /// The database.
    pub(crate) store: Store,
    /// What calls may reach.
    pub(crate) outbound: Outbound,
    security: Security,
}

impl ControlPlane {
    /// The app that an operator named, by name or id.
    pub(crate) async fn app(&self, name_or_id: &str) -> anyhow::Result<App> {
        let app = self.store.app_by_name_or_id(name_or_id).await?;
        app.with_context(|| {
            format!("there is no app {name_or_id:?}; `tidings app list` shows those there are")
        })
    }

    /// The key that secrets are sealed with, which is the one of this database.
    pub(crate) async fn master_key(&self) -> anyhow::Result<MasterKey> {
        let master_key = self.configured_key()?;
        foreign::refuse(&self.store, &master_key, &self.security).await?;
        Ok(master_key)
    }

    /// The key that is configured, whatever the database is sealed with.
    pub(crate) fn configured_key(&self) -> anyhow::Result<MasterKey> {
        if self.security.master_key_file.is_none() {
            let message = "no master key is configured: set `[security] master_key_file` in the configuration file or \
                 TIDINGS_SECURITY__MASTER_KEY_FILE to the file that the services use";
            return Err(Refused(message.to_owned()).into());
        }
        Ok(MasterKey::configured(&self.security)?)
    }
}

/// The operator, for the audit log: the account behind sudo, that of the session, or the one that the process runs as.
pub(crate) fn actor() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| {
        let account = std::env::var(name).ok()?;
        (!account.is_empty()).then_some(account)
    });
    format!("cli:{}", named.unwrap_or_else(account))
}

/// The account of this process by name, or `uid:` and its number if it has none, as in most containers.
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
