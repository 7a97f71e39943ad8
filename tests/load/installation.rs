//! Private servers with schema, streams and one app.

use std::time::Duration;

use credentials::secrets;
use domain::{Actor, AppId, Channel};
use event_log::EventLog;
use local_servers::Postgres;
use serde_json::Value;
use service_kit::{clock, connections};
use sqlx::{Connection, PgConnection};
use store::Store;
use store::control::app::{NewApp, NewSecret};
use store::control::provider::{NewProvider, SecretChange};
use tempfile::TempDir;
use testkit::{Servers, Service, eventually};
use tokio::time::Instant;

use crate::old_sends;
use crate::role::Role;

pub(crate) const PARTITIONS: u32 = 4;
const SOON: Duration = Duration::from_secs(60);
/// Longer than the time between two looks of a service at the statistics.
const PINNED_WITHIN: Duration = Duration::from_secs(12);

/// The installation that is measured.
pub(crate) struct Installation {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    pub(crate) app: AppId,
    pub(crate) api_key: String,
    pub(crate) api_secret: String,
    pub(crate) servers: Servers,
    /// True if the tables contain sends that ended before the measurements.
    pub(crate) has_old_sends: bool,
    /// PostgreSQL that waits for the disk at every commit, as in production. None if TIDINGS_TEST_DATABASE_URL names a server.
    postgres: Option<Postgres>,
    _files: TempDir,
}

impl Installation {
    /// Starts an installation whose tables contain this number of sends that ended earlier.
    pub(crate) async fn start(old_sends: u32) -> Installation {
        let files = tempfile::Builder::new().prefix("tidings-load-").tempdir().unwrap();
        let (postgres, servers) = if std::env::var_os("TIDINGS_TEST_DATABASE_URL").is_some() {
            (None, Servers::start().await)
        } else {
            let postgres = Postgres::start(&files.path().join("postgres")).await.unwrap();
            let servers = Servers::start_on(postgres.url()).await;
            (Some(postgres), servers)
        };
        let installation = Installation::on(postgres, servers, files, old_sends > 0).await;
        if installation.has_old_sends {
            eprintln!("filling the tables with {old_sends} old sends");
            old_sends::put(&installation, old_sends).await;
        }
        installation
    }

    /// Starts an installation on its own PostgreSQL with these settings, which [`postgres`](Self::postgres) can restart.
    pub(crate) async fn start_with(settings: &[(&str, &str)], is_unsynced: bool) -> Installation {
        let files = tempfile::Builder::new().prefix("tidings-load-").tempdir().unwrap();
        let path = files.path().join("postgres");
        let started =
            if is_unsynced { Postgres::start_fast(&path).await } else { Postgres::start(&path).await };
        let mut postgres = started.unwrap();
        let mut connection = PgConnection::connect(postgres.url()).await.unwrap();
        for (name, value) in settings {
            let statement = format!("ALTER SYSTEM SET {name} = '{value}'");
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
        postgres.restart().await.unwrap();
        let servers = Servers::start_on(postgres.url()).await;
        Installation::on(Some(postgres), servers, files, false).await
    }

    async fn on(
        postgres: Option<Postgres>,
        servers: Servers,
        files: TempDir,
        has_old_sends: bool,
    ) -> Installation {
        let mut config = servers.config();
        config.streams.partitions = PARTITIONS;
        servers.prepare(&config).await;
        let store = connections::store(&config, SOON).await.unwrap();
        let log = connections::event_log(&config, SOON).await.unwrap();

        let (api_key, api_secret) = (clock::new_id().to_string(), clock::new_id().to_string());
        let new = NewApp { name: "load", api_key: &api_key, development: true };
        let draft = store.control().create_app(new, &Actor::System).await.unwrap().unwrap();
        let digest = secrets::sha256(api_secret.as_bytes());
        let app = draft.commit(NewSecret { digest: &digest, sealed: b"sealed" }).await.unwrap();
        Installation { store, log, app, api_key, api_secret, servers, has_old_sends, postgres, _files: files }
    }

    /// The PostgreSQL of this installation.
    ///
    /// # Panics
    /// TIDINGS_TEST_DATABASE_URL named the server.
    pub(crate) fn postgres(&mut self) -> &mut Postgres {
        self.postgres.as_mut().expect("the installation has its own PostgreSQL")
    }

    pub(crate) fn database_url(&self) -> &str {
        self.servers.database_url()
    }

    pub(crate) fn nats_url(&self) -> &str {
        self.servers.nats.url()
    }

    /// Makes this the app's only provider of the channel.
    pub(crate) async fn provider(&self, channel: Channel, kind: &str, settings: &Value, secrets: &Value) {
        let of_channel: Vec<_> = self.store.control().providers(self.app, channel).await.unwrap();
        for other in of_channel {
            self.store.control().remove_provider(self.app, &other.identifier, &Actor::System).await.unwrap();
        }
        let context = secrets::provider_context(self.app, kind);
        let sealed = self.servers.master_key.seal(&context, secrets.to_string().as_bytes()).unwrap();
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
        self.store.control().put_provider(self.app, provider, &Actor::System).await.unwrap();
    }

    /// Starts a service with its default configuration and additional environment variables.
    pub(crate) fn serve(&self, role: Role, more: &[(&str, &str)]) -> Service {
        let partitions = PARTITIONS.to_string();
        let variables = self.servers.environment();
        let mut environment: Vec<_> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // Raise the limits, because a single app makes all calls.
        environment.extend([
            ("TIDINGS_STREAMS__PARTITIONS", partitions.as_str()),
            ("TIDINGS_GATEWAY__RATE_LIMIT", "1000000"),
        ]);
        environment.extend(more);
        role.start(&environment)
    }

    /// Analyses the tables, as PostgreSQL does by itself within a minute or two, and waits until services have pinned their plans.
    pub(crate) async fn analyse(&self) {
        let mut connection = PgConnection::connect(self.database_url()).await.unwrap();
        sqlx::raw_sql("ANALYZE").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let analysed = Instant::now();
        eventually(SOON, "plans are pinned", async || (analysed.elapsed() > PINNED_WITHIN).then_some(()))
            .await;
    }

    /// Makes PostgreSQL write all data to disk, so that no measurement includes writes of the previous one.
    pub(crate) async fn settle(&self) {
        let url = self.database_url();
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}
