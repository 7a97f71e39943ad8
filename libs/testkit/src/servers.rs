use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use credentials::MasterKey;
use local_servers::NatsServer;
use service_kit::{Config, connections, installation};
use tempfile::TempDir;

use crate::database::Database;

const KEY: &str = "master.key";
const CONNECTED_WITHIN: Duration = Duration::from_secs(60);

/// A database, a nats-server, and a directory with a master key. Dropping this value stops the nats-server, and removes the database and
/// the directory unless the caller supplied them.
pub struct Servers {
    pub nats: NatsServer,
    pub master_key: MasterKey,
    database_url: String,
    directory: PathBuf,
    _temporary: Option<TempDir>,
    _database: Option<Database>,
}

#[allow(clippy::unwrap_used, clippy::panic, reason = "this is how a test fails")]
impl Servers {
    /// Starts the servers with a new database, which has the current schema.
    pub async fn start() -> Self {
        let database = Database::with_schema().await;
        let url = database.url().to_owned();
        Self { _database: Some(database), ..Self::start_on(&url).await }
    }

    /// Starts on an existing database, which the caller removes.
    pub async fn start_on(database_url: &str) -> Self {
        let temporary = tempfile::Builder::new().prefix("tidings-test-").tempdir().unwrap();
        let servers = Self::start_in(temporary.path(), database_url).await;
        Self { _temporary: Some(temporary), ..servers }
    }

    /// Starts with files in `directory`, which the caller removes.
    pub async fn start_in(directory: &Path, database_url: &str) -> Self {
        let master_key = MasterKey::generate_file(&directory.join(KEY)).unwrap();
        let nats = match NatsServer::start_at(&directory.join("nats")).await {
            Ok(nats) => nats,
            Err(error) => panic!("no test nats-server: {error:#}"),
        };
        let (directory, database_url) = (directory.to_owned(), database_url.to_owned());
        Self { nats, master_key, database_url, directory, _temporary: None, _database: None }
    }

    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    pub fn key_file(&self) -> PathBuf {
        self.directory.join(KEY)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Configures one inbox partition, a free port for metrics, and an inbox that keeps old items, because tests insert items of any age.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        config.database.url = Some(self.database_url.parse().unwrap());
        config.nats.url = Some(self.nats.url().parse().unwrap());
        config.security.master_key_file = Some(self.key_file());
        config.streams.partitions = 1;
        config.inbox.keep = Duration::from_secs(3_650 * 86_400);
        config.inbox.keep_per_user = 1_000_000;
        config.metrics.listen.set_port(0);
        config
    }

    /// Configures a process without a configuration file: the default number of partitions, and an inbox that keeps old items.
    pub fn environment(&self) -> Vec<(String, String)> {
        let key_file = self.key_file();
        let variables = [
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", self.database_url()),
            ("TIDINGS_NATS__URL", self.nats.url()),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            ("TIDINGS_INBOX__KEEP", "3650d"),
            ("TIDINGS_INBOX__KEEP_PER_USER", "1000000"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", &key_file.to_string_lossy()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    pub async fn prepare(&self, config: &Config) {
        if let Err(error) = try_prepare(config).await {
            panic!("no test installation: {error:#}");
        }
    }
}

async fn try_prepare(config: &Config) -> anyhow::Result<()> {
    let store = connections::store(config, CONNECTED_WITHIN).await?;
    let log = connections::event_log(config, CONNECTED_WITHIN).await?;
    store.migrate().await.context("cannot create the schema")?;
    installation::prepare(&store, &log, config.streams.partitions).await?;
    installation::record_log_store(&store, &log, config.streams.partitions).await?;
    store.close().await;
    Ok(())
}
