//! The connection pool.

use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::timeout;

use crate::Error;
use crate::database::installation::{self, DatabaseIdentity};
use crate::database::pooler;
use crate::directory::user::writers::Writers;

/// Time limit for opening a session outside the pool.
const SESSION_LIMIT: Duration = Duration::from_secs(3);
/// A connection that was idle for this time is tested before its next use. A connection that was released more recently is used
/// without a test, because sqlx tests every connection when it is released.
const TESTED_AFTER: Duration = Duration::from_secs(1);
/// `application_name` of every session.
pub(crate) const APPLICATION: &str = "tidings";

/// All migrations of this release.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!();

/// Settings of every session. Sequential scans are off because a query plan is cached for the whole session and may be based on
/// statistics from before the table grew. JIT is off because the penalty cost of disabled scans would trigger it, although
/// compilation takes longer than any statement of the store.
pub const SESSION: [(&str, &str); 5] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
];

/// Settings of a session with pinned plans, in addition to [`SESSION`]. Each statement is planned once for all its parameters, with
/// joins that look rows up by index. Otherwise the plan depends on the size of the first batches and on the statistics at that time.
pub const PINNED: [(&str, &str); 3] =
    [("plan_cache_mode", "force_generic_plan"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

/// Settings of the connection pool.
#[derive(Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    /// Maximum number of connections of the pool.
    pub max_connections: u32,
}

/// A connection pool. Its statements are methods of the faces of the rooms, such as [`Store::deliveries`].
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) writers: Writers,
    /// True if new sessions get the settings [`PINNED`].
    pub(crate) pins_plans: Arc<AtomicBool>,
}

/// Number of connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections in use.
    pub used: u32,
    /// Connections that are open but not in use.
    pub idle: u32,
    /// Maximum number of connections, used and idle together.
    pub max: u32,
}

/// Number of sessions of the PostgreSQL server, over all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSessions {
    /// `max_connections` without the slots reserved for privileged roles.
    pub allowed: u64,
    /// Sessions open now.
    pub open: u64,
}

impl Store {
    /// Opens the pool and checks that it can connect. All connections must reach the same database: if it is replaced by
    /// another one, such as a restored backup, new connections fail until the process is restarted.
    ///
    /// # Errors
    /// The URL is malformed, or the server cannot be reached or refuses the session.
    pub async fn connect(settings: &Settings) -> Result<Store, Error> {
        let options = options(&settings.url)?;
        let database = Arc::new(OnceLock::new());
        let pins_plans = Arc::new(AtomicBool::new(false));
        let pins = Arc::clone(&pins_plans);
        let opened = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(Duration::from_secs(3))
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for >= TESTED_AFTER {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(move |connection, _| {
                let (database, pins) = (Arc::clone(&database), Arc::clone(&pins));
                Box::pin(async move {
                    set(connection, &SESSION).await?;
                    if pins.load(Ordering::Relaxed) {
                        set(connection, &PINNED).await?;
                    }
                    check_same_database(connection, &database).await
                })
            })
            .connect_with(options.clone())
            .await;
        if matches!(opened, Err(sqlx::Error::PoolTimedOut)) {
            try_session(&options).await?;
        }
        Ok(Store { pool: opened?, writers: Writers::new(), pins_plans })
    }

    /// Pins the plans of all sessions that the pool opens from now on (see [`PINNED`]), and closes the idle ones. For processes
    /// that run the same small batches all the time.
    pub async fn pin_plans(&self) {
        self.pins_plans.store(true, Ordering::Relaxed);
        while let Some(idle) = self.pool.try_acquire() {
            if let Err(error) = idle.close().await {
                tracing::debug!(%error, "cannot close a session; the pool has dropped it");
            }
        }
    }

    /// Checks that each connection has its own PostgreSQL session. Behind a pooler in transaction or statement mode,
    /// connections share sessions. Uses two connections of the pool during the call.
    ///
    /// # Errors
    /// [`Error::SharedSessions`], or the database failed.
    pub async fn refuse_shared_sessions(&self) -> Result<(), Error> {
        pooler::refuse_shared_sessions(&self.pool).await
    }

    /// Opens a session outside the pool and closes it. If this fails, the error contains the server's message, for instance
    /// that too many clients are connected; the pool would only report a timeout.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the session.
    pub async fn try_connection(&self) -> Result<(), Error> {
        try_session(&self.pool.connect_options()).await
    }

    /// Returns the current number of connections of the pool.
    #[must_use]
    pub fn connections(&self) -> Connections {
        let open = self.pool.size();
        let max = self.pool.options().get_max_connections();
        let idle = u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX).min(open);
        Connections { used: open - idle, idle, max }
    }

    /// Returns the number of sessions that the server allows for services, and the number of open sessions.
    pub async fn server_sessions(&self) -> Result<ServerSessions, Error> {
        let sessions = sqlx::query!(
            r#"SELECT current_setting('max_connections')::bigint
                    - current_setting('superuser_reserved_connections')::bigint
                    - coalesce(current_setting('reserved_connections', true), '0')::bigint AS "allowed!",
                    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS "open!""#,
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(ServerSessions {
            allowed: sessions.allowed.max(0).unsigned_abs(),
            open: sessions.open.unsigned_abs(),
        })
    }

    /// Runs `SELECT 1`.
    ///
    /// # Errors
    /// The database did not answer within the pool's time limit.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query_scalar!("SELECT 1").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// Migrates the schema. Safe to repeat. Concurrent calls wait for each other: each holds an advisory lock.
    ///
    /// # Errors
    /// A migration failed, or a migration that was applied earlier has changed.
    pub async fn migrate(&self) -> Result<(), Error> {
        MIGRATIONS.run(&self.pool).await?;
        Ok(())
    }

    /// Waits until no connection is in use, then closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Parses the URL into the options of a session, without start-up settings: poolers such as PgBouncer refuse them, so
/// [`set`] applies settings after connecting. `extra_float_digits` is left out too: since PostgreSQL 12 its default loses
/// no precision.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.application_name(APPLICATION).extra_float_digits(None))
}

/// Applies settings to a session.
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

/// Refuses a connection that reaches another database than the first connection did: the state of this process, in memory
/// and in the log, belongs to the first database.
async fn check_same_database(
    connection: &mut PgConnection,
    first: &OnceLock<DatabaseIdentity>,
) -> Result<(), sqlx::Error> {
    let current = installation::identity(connection).await?;
    if first.get_or_init(|| current).is_still(current) {
        return Ok(());
    }
    let message =
        "the database has been replaced by another one since this process connected; restart the process";
    Err(sqlx::Error::Io(io::Error::other(message)))
}
