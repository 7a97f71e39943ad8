//! The connection pool.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::time::timeout;

use crate::Error;
use crate::database::installation::{self, DatabaseIdentity};
use crate::database::pooler;
use crate::directory::user::writers::Writers;

/// Limit for opening a session beside the pool.
const SESSION_LIMIT: Duration = Duration::from_secs(3);
/// What every session of Tidings calls itself.
pub(crate) const APPLICATION: &str = "tidings";

/// What brings a schema to where this release needs it.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!();

/// Settings of every session. The planner never reads a whole table if an index leads to the rows: what it knows of a table's
/// size may be from before the table grew, and a plan is kept for as long as the session. The cost that it gives to what it
/// must not do would start the compiler, which takes longer than any statement here.
pub const SESSION: [(&str, &str); 5] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
];

/// How to reach the database.
#[derive(Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Upper bound of the pool.
    pub max_connections: u32,
}

/// A pool of connections and every statement that runs on them.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) writers: Writers,
}

/// Connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// At work.
    pub used: u32,
    /// Open and free.
    pub idle: u32,
    /// Upper bound of both together.
    pub max: u32,
}

/// Sessions of the server, over all its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSessions {
    /// `max_connections`, less the slots reserved for privileged roles.
    pub allowed: u64,
    /// Open now.
    pub open: u64,
}

impl Store {
    /// Opens the pool and checks that it has connections. All of them lead to one database: if another one takes its place, as a
    /// restored backup does, they fail until the process starts again.
    ///
    /// # Errors
    /// The URL is malformed, or the server cannot be reached or refuses the session.
    pub async fn connect(settings: &Settings) -> Result<Store, Error> {
        let options = options(&settings.url)?;
        let database = Arc::new(OnceLock::new());
        let opened = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(Duration::from_secs(3))
            .after_connect(move |connection, _| {
                let database = Arc::clone(&database);
                Box::pin(async move {
                    set(connection, &SESSION).await?;
                    is_the_same(connection, &database).await
                })
            })
            .connect_with(options.clone())
            .await;
        if matches!(opened, Err(sqlx::Error::PoolTimedOut)) {
            try_session(&options).await?;
        }
        Ok(Store { pool: opened?, writers: Writers::new() })
    }

    /// Checks that connections are sessions of their own, which they are not behind a pooler in transaction mode. Needs two
    /// connections of the pool for a moment.
    ///
    /// # Errors
    /// [`Error::SharedSessions`], or the database failed.
    pub async fn refuse_shared_sessions(&self) -> Result<(), Error> {
        pooler::refuse_shared_sessions(&self.pool).await
    }

    /// Opens a session beside the pool and closes it again. Its error has the server's own words; the pool only says that it
    /// timed out, for instance when the server has no room for another session.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the session.
    pub async fn try_connection(&self) -> Result<(), Error> {
        try_session(&self.pool.connect_options()).await
    }

    /// Connections of the pool now.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let (open, max) = (self.pool.size(), self.pool.options().get_max_connections());
        let idle = u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX).min(open);
        Connections { used: open - idle, idle, max }
    }

    /// Sessions that the server allows to services and has now.
    ///
    /// # Errors
    /// The database failed.
    pub async fn server_sessions(&self) -> Result<ServerSessions, Error> {
        let row = sqlx::query(
            "SELECT current_setting('max_connections')::bigint
                    - current_setting('superuser_reserved_connections')::bigint
                    - coalesce(current_setting('reserved_connections', true), '0')::bigint AS allowed,
                    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS open",
        )
        .fetch_one(&self.pool)
        .await?;
        let [allowed, open] = [row.try_get::<i64, _>("allowed")?, row.try_get::<i64, _>("open")?];
        Ok(ServerSessions { allowed: allowed.max(0).unsigned_abs(), open: open.unsigned_abs() })
    }

    /// Asks the database for a sign of life.
    ///
    /// # Errors
    /// It did not answer within the pool's time limit.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Brings the schema up to date. Safe to run twice and by two processes at once: it holds an advisory lock.
    ///
    /// # Errors
    /// A migration failed, or one that ran before has been changed since.
    pub async fn migrate(&self) -> Result<(), Error> {
        MIGRATIONS.run(&self.pool).await?;
        Ok(())
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Options of a session that a pooler such as PgBouncer takes too: settings come later, by [`set`], because it refuses a session
/// that asks for them at its start. `extra_float_digits` has a default that loses nothing since PostgreSQL 12.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.application_name(APPLICATION).extra_float_digits(None))
}

/// Gives a session these settings.
pub(crate) async fn set(
    connection: &mut PgConnection,
    settings: &'static [(&'static str, &'static str)],
) -> Result<(), sqlx::Error> {
    let statements: String =
        settings.iter().map(|(name, value)| format!("SET {name} = '{value}';")).collect();
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await?;
    Ok(())
}

async fn try_session(options: &PgConnectOptions) -> Result<(), Error> {
    let opened = timeout(SESSION_LIMIT, PgConnection::connect_with(options)).await;
    Ok(opened.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?)
}

/// Refuses a connection that leads elsewhere than the first one did: what this process knows, and holds in the log, is
/// of that database.
async fn is_the_same(
    connection: &mut PgConnection,
    first: &OnceLock<DatabaseIdentity>,
) -> Result<(), sqlx::Error> {
    let found = installation::identity(connection).await?;
    if first.get_or_init(|| found).is_still(found) {
        return Ok(());
    }
    let message =
        "another database stands in the place of the one that was connected to: start this process again";
    Err(sqlx::Error::Io(io::Error::other(message)))
}
