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

const SESSION_LIMIT: Duration = Duration::from_secs(3);
/// Longer than `statement_timeout`.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);
/// sqlx tests a connection whenever it is released, so only a connection that was idle for this time is tested again.
const TESTED_AFTER: Duration = Duration::from_secs(1);
/// Longer than sqlx needs to note the age of a new connection after its settings were applied.
const NOTED_WITHIN: Duration = Duration::from_millis(100);
pub(crate) const APPLICATION: &str = "tidings";

/// A try ends after `lock_timeout` at the latest.
const MIGRATION_TRIES: u32 = 6;

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

/// Limits the time of work on one connection. If the host of the server fails, the connection does not end, and no limit of the server
/// applies.
pub(crate) async fn answered<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWER_LIMIT, work).await.unwrap_or(Err(Error::Unanswered("the server did not answer")))
}

/// Number of changed rows at which PostgreSQL analyses a table by itself.
const ANALYSED: f32 = 50.0;

#[derive(Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`.
    pub url: String,
    pub max_connections: u32,
}

#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: PgPool,
    pub(crate) writers: Writers,
    pub(crate) pinned_at: Arc<OnceLock<Instant>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    pub used: u32,
    pub idle: u32,
    pub max: u32,
}

/// Session counts of the PostgreSQL server, across all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSessions {
    /// Without the connections reserved for privileged roles.
    pub allowed: u64,
    pub open: u64,
}

impl Store {
    /// Every new connection must reach the same database as the first. If the database is replaced, for instance by a restored backup, new
    /// connections fail until the process restarts.
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
                    of_idle.get().is_none_or(|pinned_at| meta.age + NOTED_WITHIN < pinned_at.elapsed());
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
                    check_same_database(connection, &database).await?;
                    // Last, because the plans may be pinned during each request before.
                    if pinned_at.get().is_some() {
                        set(connection, &PINNED).await?;
                    }
                    Ok(())
                })
            })
            .after_release(|connection, _| Box::pin(finish_dropped_statements(connection)))
            .connect_with(options.clone())
            .await;
        if matches!(opened, Err(sqlx::Error::PoolTimedOut)) {
            try_session(&options).await?;
        }
        Ok(Store { pool: opened?, writers: Writers::new(), pinned_at })
    }

    /// Pins the plans of all statements that start from now on (see [`PINNED`]). Meant for processes that run the same small batches all
    /// the time.
    pub fn pin_plans(&self) {
        self.pinned_at.get_or_init(Instant::now);
    }

    /// Pins the plans ([`pin_plans`](Self::pin_plans)) if PostgreSQL has analysed each of the tables with 50 rows or more. An unknown table
    /// does not count as analysed. Returns true once the plans are pinned. Without statistics, any index that begins with the app seems as
    /// good as the right one. Newer statistics replace pinned plans too.
    pub async fn pin_plans_with_statistics(&self, tables: &[&str]) -> Result<bool, Error> {
        if self.pinned_at.get().is_some() {
            return Ok(true);
        }
        let are_analysed = sqlx::query_scalar!(
            r#"SELECT bool_and(coalesce(c.reltuples >= $2, false) AND EXISTS (
                 SELECT FROM pg_stats s WHERE s.schemaname = current_schema() AND s.tablename = asked.name
               )) AS "analysed!"
               FROM unnest($1::text[]) AS asked (name) LEFT JOIN pg_class c ON c.oid = to_regclass(asked.name)"#,
            tables as &[&str],
            ANALYSED
        )
        .fetch_one(&self.pool)
        .await?;
        if are_analysed {
            self.pin_plans();
        }
        Ok(are_analysed)
    }

    /// Returns [`Error::SharedSessions`] if a pooler shares sessions between clients. Uses two connections of the pool during the call.
    pub async fn refuse_shared_sessions(&self) -> Result<(), Error> {
        pooler::refuse_shared_sessions(&self.pool).await
    }

    /// Opens a session outside the pool, because the pool would report only a timeout. The error contains the server's message, such as
    /// "too many clients".
    pub async fn try_connection(&self) -> Result<(), Error> {
        try_session(&self.pool.connect_options()).await
    }

    #[must_use]
    pub fn connections(&self) -> Connections {
        let open = self.pool.size();
        let max = self.pool.options().get_max_connections();
        let idle = u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX).min(open);
        Connections { used: open - idle, idle, max }
    }

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

    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query_scalar!("SELECT 1").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// Applies the missing migrations. Safe to repeat. An advisory lock makes concurrent calls wait for each other. A migration that
    /// deadlocks with running services, or waits too long for their locks, is repeated a few times.
    ///
    /// # Errors
    /// Returns an error if the text of a migration has changed since it was applied.
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

    /// Waits until no connection is in use.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Parses the URL. Poolers such as PgBouncer refuse settings in the startup message, so [`set`] applies them after connecting, and
/// `extra_float_digits`, which sqlx adds, is removed. No precision is lost: the server's default has been sufficient since PostgreSQL 12.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, Error> {
    Ok(PgConnectOptions::from_str(url)?.application_name(APPLICATION).extra_float_digits(None))
}

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

/// Waits for the answers to statements that the caller has dropped. If the host of the server has failed, sqlx itself would wait until TCP
/// gives up, and the connection would keep its place in the pool for that time.
async fn finish_dropped_statements(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let finished = timeout(ANSWER_LIMIT, connection.flush()).await;
    finished.map_err(|_| sqlx::Error::Io(io::ErrorKind::TimedOut.into()))??;
    Ok(true)
}

/// Refuses a connection to another database than the pool's first: data that this process holds in memory or has published to the log
/// belongs to that one.
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
