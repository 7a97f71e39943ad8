//! The connection pool.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::PgConnection;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::Error;
use crate::installation::{self, DatabaseIdentity};
use crate::user::writers::Writers;

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

impl Store {
    /// Opens the pool and checks that a connection can be had. All its connections lead to one database: where another
    /// one is put in its place, as a backup is, they fail until the process starts again.
    ///
    /// # Errors
    /// The URL is malformed, or nobody answers there.
    pub async fn connect(settings: &Settings) -> Result<Store, Error> {
        let options =
            PgConnectOptions::from_str(&settings.url)?.application_name(APPLICATION).options(SESSION);
        let database = Arc::new(OnceLock::new());
        let pool = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(Duration::from_secs(3))
            .after_connect(move |connection, _| {
                let database = Arc::clone(&database);
                Box::pin(async move { is_the_same(connection, &database).await })
            })
            .connect_with(options)
            .await?;
        Ok(Store { pool, writers: Writers::new() })
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
