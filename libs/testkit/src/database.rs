//! A new database for one test.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::Mutex;

use local_servers::Postgres;

/// Environment variable with the URL of a running PostgreSQL in which tests may create databases. `cargo xtask test` sets it. If
/// it is not set, each test process starts a private cluster.
const SHARED: &str = "TIDINGS_TEST_DATABASE_URL";
const DROPPED_WITHIN: Duration = Duration::from_secs(10);
static MIGRATIONS: Migrator = sqlx::migrate!("../store/migrations");
/// SQLSTATE `invalid_catalog_name`.
const NO_DATABASE: &str = "3D000";
/// Key of the advisory lock under which the template is created.
const TEMPLATE_LOCK: i64 = 0x7469_6469_6e67;

/// A new database. Dropping this value also drops the database from the server.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    server_url: String,
    _cluster: Option<Arc<Cluster>>,
}

/// The private PostgreSQL cluster of this process, shared by all its test databases. The cluster stops when the last of them is
/// dropped.
#[derive(Debug)]
struct Cluster {
    postgres: Postgres,
    _files: TempDir,
}

impl Database {
    /// Creates an empty database with a random name.
    ///
    /// # Panics
    /// Panics if the shared PostgreSQL cannot be reached, or a private PostgreSQL cannot be started.
    pub async fn create() -> Self {
        Self::create_from(None).await
    }

    /// Creates a database with a random name and the current schema. The database is a copy of a template, because that takes a third
    /// of the time of all migrations.
    ///
    /// # Panics
    /// Panics like [`create`](Self::create).
    pub async fn with_schema() -> Self {
        Self::create_from(Some(&template_name())).await
    }

    #[allow(clippy::panic, reason = "this is how a test fails")]
    async fn create_from(template: Option<&str>) -> Self {
        match Self::try_create(template).await {
            Ok(database) => database,
            Err(error) => panic!("no test database: {error:#}"),
        }
    }

    async fn try_create(template: Option<&str>) -> anyhow::Result<Self> {
        let (server_url, cluster) = match std::env::var(SHARED) {
            Ok(url) => (url, None),
            Err(_) => {
                let cluster = private_cluster().await?;
                (cluster.postgres.url().to_owned(), Some(cluster))
            }
        };
        let name = random_name();
        let mut connection = PgConnection::connect(&server_url).await.context(SHARED)?;
        // A copy of the files costs a quarter of a copy that passes through the WAL. It needs checkpoints, which are cheap without fsync.
        let copy = template.map(|template| format!(" TEMPLATE {template} STRATEGY file_copy"));
        let copy = copy.unwrap_or_default();
        let create = format!("CREATE DATABASE {name}{copy}");
        let mut created = execute(&mut connection, &create).await;
        if let Some(template) = template
            && created.as_ref().is_err_and(is_no_database)
        {
            create_template(&mut connection, &server_url, template).await.context("no template")?;
            created = execute(&mut connection, &create).await;
        }
        created?;
        connection.close().await?;
        let url = with_database(&server_url, &name).context("the server's URL has no scheme")?;
        Ok(Self { name, url, server_url, _cluster: cluster })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Database {
    /// Drops the database within 10 s. A database in a private cluster is not dropped, because it is removed with the cluster.
    fn drop(&mut self) {
        if self._cluster.is_some() {
            return;
        }
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let url = std::mem::take(&mut self.server_url);
        // Use a separate thread, because this code may run in the test's runtime, which must not block.
        let dropping = std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                tokio::time::timeout(DROPPED_WITHIN, async {
                    let mut connection = PgConnection::connect(&url).await?;
                    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
                    anyhow::Ok(())
                })
                .await?
            })
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("cannot drop the test database {}: {error:#}", self.name);
        }
    }
}

/// Creates the template unless another process has created it meanwhile. The template gets its name when it is complete.
async fn create_template(
    connection: &mut PgConnection,
    server_url: &str,
    template: &str,
) -> anyhow::Result<()> {
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *connection).await?;
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(template)
        .fetch_one(&mut *connection)
        .await?;
    if !exists {
        let name = random_name();
        execute(connection, &format!("CREATE DATABASE {name}")).await?;
        let url = with_database(server_url, &name).context("the server's URL has no scheme")?;
        let mut migrated = PgConnection::connect(&url).await?;
        MIGRATIONS.run(&mut migrated).await?;
        migrated.close().await?;
        execute(connection, &format!("ALTER DATABASE {name} RENAME TO {template}")).await?;
    }
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(&mut *connection).await?;
    Ok(())
}

/// Returns a name that differs for each content of the migrations, because a running PostgreSQL may have the template of another
/// version of this workspace.
fn template_name() -> String {
    let mut hasher = DefaultHasher::new();
    MIGRATIONS.iter().for_each(|migration| migration.checksum.hash(&mut hasher));
    format!("template_{:016x}", hasher.finish())
}

fn random_name() -> String {
    let random = RandomState::new();
    format!("test_{:016x}{:016x}", random.hash_one(0), random.hash_one(std::process::id()))
}

async fn execute(connection: &mut PgConnection, statement: &str) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(statement.to_owned())).execute(connection).await.map(drop)
}

fn is_no_database(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == NO_DATABASE)
}

async fn private_cluster() -> anyhow::Result<Arc<Cluster>> {
    static CLUSTER: Mutex<Weak<Cluster>> = Mutex::const_new(Weak::new());
    let mut shared = CLUSTER.lock().await;
    if let Some(cluster) = shared.upgrade() {
        return Ok(cluster);
    }
    let files = tempfile::Builder::new().prefix("tidings-postgres-").tempdir()?;
    let postgres = Postgres::start_fast(&files.path().join("cluster")).await?;
    let cluster = Arc::new(Cluster { postgres, _files: files });
    *shared = Arc::downgrade(&cluster);
    Ok(cluster)
}

/// Replaces the name of the database in the URL. Options after `?` stay. Returns None if the URL has no scheme.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (address, options) = url.split_once('?').map_or((url, None), |(address, rest)| (address, Some(rest)));
    let host_at = address.find("://")? + 3;
    let host_end = address[host_at..].find('/').map_or(address.len(), |slash| host_at + slash);
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    Some(format!("{}/{name}{options}", &address[..host_end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        let cases = [
            ("postgres://u:p@h:1/old", "postgres://u:p@h:1/new"),
            ("postgres://h", "postgres://h/new"),
            ("postgres://h/old?sslmode=disable", "postgres://h/new?sslmode=disable"),
        ];
        for (url, expected) in cases {
            assert_eq!(with_database(url, "new").as_deref(), Some(expected));
        }
    }
}
