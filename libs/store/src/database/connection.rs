//! The connection pool.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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

/// Number of tries of a migration that cannot lock its tables. A try ends after `lock_timeout` at the latest.
const MIGRATION_TRIES: u32 = 6;

/// All migrations of this release.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!();

/// Settings of every session. `enable_seqscan` is off because PostgreSQL caches query plans for the whole session: it would
/// keep a sequential scan that it chose while the table was still small. `jit` is off because the cost that PostgreSQL adds
/// to disabled sequential scans would trigger JIT compilation, which takes longer than any statement of the store.
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

/// A pool of connections to the database. Each method such as [`Store::deliveries`] returns a value whose methods run the SQL
/// statements of one area.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) writers: Writers,
    /// Time since which sessions get the settings [`PINNED`].
    pub(crate) pinned_at: Arc<OnceLock<Instant>>,
}

/// Connection counts of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections in use.
    pub used: u32,
    /// Connections that are open but not in use.
    pub idle: u32,
    /// Maximum total number of used and idle connections.
    pub max: u32,
}

/// Session counts of the PostgreSQL server, across all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSessions {
    /// PostgreSQL's setting `max_connections`, minus the connections reserved for privileged roles.
    pub allowed: u64,
    /// Sessions open now.
    pub open: u64,
}

impl Store {
    /// Opens the pool and checks that it can connect. Every new connection must reach the same database as the first. If the
    /// database is replaced, for instance by a restored backup, new connections fail until the process restarts.
    ///
    /// # Errors
    /// Returns an error if the URL is malformed, or if the server cannot be reached or refuses the session.
    pub async fn connect(settings: &Settings) -> Result<Store, Error> {
        let options = options(&settings.url)?;
        let database = Arc::new(OnceLock::new());
        let pinned_at = Arc::new(OnceLock::<Instant>::new());
        let (of_new, of_idle) = (Arc::clone(&pinned_at), Arc::clone(&pinned_at));
        let opened = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(Duration::from_secs(3))
            .test_before_acquire(false)
            .before_acquire(move |connection, meta| {
                let has_current_settings =
                    of_idle.get().is_none_or(|pinned_at| meta.age < pinned_at.elapsed());
                Box::pin(async move {
                    if meta.idle_for >= TESTED_AFTER {
                        connection.ping().await?;
                    }
                    Ok(has_current_settings)
                })
            })
            .after_connect(move |connection, _| {
                let (database, pinned_at) = (Arc::clone(&database), Arc::clone(&of_new));
                Box::pin(async move {
                    set(connection, &SESSION).await?;
                    if pinned_at.get().is_some() {
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
        Ok(Store { pool: opened?, writers: Writers::new(), pinned_at })
    }

    /// Pins the plans of all statements that start from now on (see [`PINNED`]): the pool replaces a session that was opened
    /// before when it would use it again. For processes that run the same small batches all the time.
    pub fn pin_plans(&self) {
        self.pinned_at.get_or_init(Instant::now);
    }

    /// Checks that each connection has its own PostgreSQL session. Connections through a pooler in transaction or statement
    /// mode share sessions and fail the check. Uses two connections of the pool during the call.
    ///
    /// # Errors
    /// Returns [`Error::SharedSessions`] if connections share sessions, or another error if the database fails.
    pub async fn refuse_shared_sessions(&self) -> Result<(), Error> {
        pooler::refuse_shared_sessions(&self.pool).await
    }

    /// Opens a session outside the pool and closes it again. If this fails, the error contains the server's message, such as
    /// "too many clients". The pool would report only a timeout.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached or refuses the session.
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

    /// Checks the connection by running `SELECT 1`.
    ///
    /// # Errors
    /// Returns an error if no connection becomes available within the pool's time limit, or if the statement fails.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query_scalar!("SELECT 1").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// Applies the migrations that the database does not have yet. Safe to repeat. An advisory lock makes concurrent calls
    /// wait for each other. Repeats a migration a few times if it deadlocks with services that are running, or waits too long for
    /// their locks.
    ///
    /// # Errors
    /// Returns an error if a migration fails, or if the text of a migration has changed since it was applied.
    pub async fn migrate(&self) -> Result<(), Error> {
        for _ in 1..MIGRATION_TRIES {
            match self.try_to_migrate().await {
                Err(error) if error.is_lock_timeout() => {
                    tracing::warn!(%error, "a migration could not lock its tables; trying again");
                }
                migrated => return migrated,
            }
        }
        self.try_to_migrate().await
    }

    async fn try_to_migrate(&self) -> Result<(), Error> {
        // A run that fails keeps its advisory lock until its session ends.
        let mut connection = self.pool.acquire().await?.detach();
        let migrated = MIGRATIONS.run(&mut connection).await;
        let closed = connection.close().await;
        migrated?;
        Ok(closed?)
    }

    /// Waits until no connection is in use, then closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Parses the URL into connection options without session settings, because poolers such as PgBouncer refuse settings in the
/// startup message. [`set`] applies the settings after connecting. For the same reason, removes the setting
/// `extra_float_digits`, which sqlx adds by default. Without it, no precision is lost: the server's default has been
/// sufficient since PostgreSQL 12.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.application_name(APPLICATION).extra_float_digits(None))
}

/// Applies settings to an open session.
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

/// Returns an error if the connection reached a different database than the pool's first connection. The data that this
/// process holds in memory or has published to the log belongs to the first database.
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
