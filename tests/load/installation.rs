//! Servers of our own, with schema, streams and one app.

use std::time::Duration;

use credentials::{MasterKey, secrets};
use domain::{AppId, Channel};
use event_log::EventLog;
use local_servers::{NatsServer, Postgres};
use serde_json::Value;
use service_kit::{Config, clock, connections, installation};
use store::Store;
use store::control::app::{NewApp, NewSecret};
use store::control::provider::{NewProvider, SecretChange};
use tempfile::TempDir;
use testkit::{Database, Service};

use crate::role::Role;

pub(crate) const PARTITIONS: u32 = 4;
const SOON: Duration = Duration::from_secs(60);

/// What the services are measured on.
pub(crate) struct Installation {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    pub(crate) app: AppId,
    pub(crate) api_key: String,
    pub(crate) api_secret: String,
    pub(crate) master_key: MasterKey,
    config: Config,
    postgres: PostgresServer,
    nats: NatsServer,
    files: TempDir,
}

/// Where rows go. Ours waits for the disk, as in production.
enum PostgresServer {
    Private(Postgres),
    /// The one that TIDINGS_TEST_DATABASE_URL names.
    Named(Database),
}

impl PostgresServer {
    fn url(&self) -> &str {
        match self {
            PostgresServer::Private(server) => server.url(),
            PostgresServer::Named(database) => database.url(),
        }
    }
}

impl Installation {
    pub(crate) async fn start() -> Installation {
        let files = tempfile::Builder::new().prefix("tidings-load-").tempdir().unwrap();
        let postgres = match std::env::var_os("TIDINGS_TEST_DATABASE_URL") {
            Some(_) => PostgresServer::Named(Database::create().await),
            None => PostgresServer::Private(Postgres::start(&files.path().join("postgres")).await.unwrap()),
        };
        let nats = NatsServer::start().await.unwrap();
        let mut config = Config::default();
        config.database.url = Some(postgres.url().parse().unwrap());
        config.nats.url = Some(nats.url().parse().unwrap());
        let store = connections::store(&config, SOON).await.unwrap();
        let log = connections::event_log(&config, SOON).await.unwrap();
        store.migrate().await.unwrap();
        installation::prepare(&store, &log, PARTITIONS).await.unwrap();
        let master_key = MasterKey::generate_file(&files.path().join("master.key")).unwrap();

        let (api_key, api_secret) = (clock::new_id().to_string(), clock::new_id().to_string());
        let new = NewApp { name: "load", api_key: &api_key, development: true };
        let draft = store.control().create_app(new, "load").await.unwrap().unwrap();
        let digest = secrets::sha256(api_secret.as_bytes());
        let app = draft.commit(NewSecret { digest: &digest, sealed: b"sealed" }).await.unwrap();
        Installation { store, log, app, api_key, api_secret, master_key, config, postgres, nats, files }
    }

    pub(crate) fn database_url(&self) -> &str {
        self.postgres.url()
    }

    pub(crate) fn nats_url(&self) -> &str {
        self.nats.url()
    }

    /// Gives the app its only provider of a channel.
    pub(crate) async fn provider(&self, channel: Channel, kind: &str, settings: &Value, secrets: &Value) {
        let of_channel: Vec<_> = self.store.control().providers(self.app, channel).await.unwrap();
        for other in of_channel {
            self.store.control().remove_provider(self.app, &other.identifier, "load").await.unwrap();
        }
        let context = secrets::provider_context(self.app, kind);
        let sealed = self.master_key.seal(&context, secrets.to_string().as_bytes()).unwrap();
        let provider = NewProvider {
            identifier: kind,
            channel,
            kind,
            priority: 1,
            enabled: true,
            max_per_second: None,
            settings,
            secret: SecretChange::Replace(&sealed),
        };
        self.store.control().put_provider(self.app, provider, "load").await.unwrap();
    }

    /// Starts a service with what is configured unless told otherwise.
    pub(crate) fn serve(&self, role: Role, more: &[(&str, &str)]) -> Service {
        let key_file = self.files.path().join("master.key");
        let partitions = PARTITIONS.to_string();
        let mut environment = vec![
            ("TIDINGS_CONFIG", ""),
            ("TIDINGS_DATABASE__URL", self.database_url()),
            ("TIDINGS_NATS__URL", self.nats_url()),
            ("TIDINGS_STREAMS__PARTITIONS", &partitions),
            ("TIDINGS_METRICS__LISTEN", "127.0.0.1:0"),
            // One app makes all the load.
            ("TIDINGS_GATEWAY__RATE_LIMIT", "1000000"),
            ("TIDINGS_SECURITY__MASTER_KEY_FILE", key_file.to_str().unwrap()),
        ];
        environment.extend(more);
        role.start(&environment)
    }

    /// Waits for the disk, so that no measurement pays for the one before it.
    pub(crate) async fn settle(&self) {
        let url = self.config.database.url.as_ref().unwrap().expose();
        let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap();
        sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await.unwrap();
        sqlx::Connection::close(connection).await.unwrap();
    }
}
