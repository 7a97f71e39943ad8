//! Shadows of the inbox: tables with the same structure as the live tables, written by a replay of the log.
//!
//! A shadow is a schema that is first in the search path of its connections. The statements that write the inbox therefore
//! write to the shadow, which has its own checkpoints. Statements use the live tables if the shadow has no table of that name,
//! for example for the directory.

mod compare;
mod copy;
mod difference;
mod switch;
mod tables;
mod view;

pub use compare::{Comparison, Inbox};
pub use difference::{ChangedItem, Difference, Items};
pub use switch::{Switch, SwitchResult};
pub use view::View;

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::database::connection::{options, set};
use crate::directory::user::writers::Writers;
use crate::{Error, Settings, Store};

/// Settings of every session. The statement timeout is long because a single statement compares all inboxes or builds an index.
/// Idle transactions are allowed because a view of the live tables waits until the shadow has caught up, and each side of a
/// comparison waits for the other.
const SESSION: [(&str, &str); 3] =
    [("statement_timeout", "2h"), ("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "2h")];
const ACQUIRED_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of connections to a shadow. The next two constants limit connections to the live tables and to a backup.
const CONNECTIONS: u32 = 6;
const LIVE_CONNECTIONS: u32 = 2;
const BACKUP_CONNECTIONS: u32 = 2;

/// Purpose of a shadow; determines its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The shadow is compared with the live tables, then dropped. Its tables are unlogged, so they are emptied if
    /// PostgreSQL crashes.
    Comparison,
    /// The shadow replaces the live tables.
    Replacement,
}

impl Purpose {
    fn schema(self) -> &'static str {
        match self {
            Purpose::Comparison => "inbox_verify",
            Purpose::Replacement => "inbox_rebuild",
        }
    }
}

/// Access to a shadow and to the live tables. At most one process at a time can have a shadow with the same purpose.
#[derive(Debug)]
pub struct Shadow {
    /// Store that uses the inbox of the shadow and the live directory.
    pub store: Store,
    purpose: Purpose,
    /// The schema of the live tables.
    home: String,
    /// Version of the live schema, at which the shadow is created.
    version: i64,
    live: PgPool,
    /// Session with the advisory lock that excludes other processes.
    guard: PgConnection,
}

impl Shadow {
    /// Acquires the lock on a shadow and opens its connections; its tables need not exist. Returns None if another process
    /// has the lock.
    ///
    /// # Errors
    /// The database failed, or its URL is malformed.
    pub async fn take(settings: &Settings, purpose: Purpose) -> Result<Option<Shadow>, Error> {
        let options = options(&settings.url)?;
        let mut guard = PgConnection::connect_with(&options).await?;
        set(&mut guard, &SESSION).await?;
        let taken: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended($1, 0))")
            .bind(purpose.schema())
            .fetch_one(&mut guard)
            .await?;
        if !taken {
            return Ok(None);
        }
        let home: String = sqlx::query_scalar("SELECT current_schema()").fetch_one(&mut guard).await?;
        let path: String = sqlx::query_scalar("SELECT concat(quote_ident($1), ', ', quote_ident($2))")
            .bind(purpose.schema())
            .bind(&home)
            .fetch_one(&mut guard)
            .await?;
        let live = pool(LIVE_CONNECTIONS).connect_with(options.clone()).await?;
        let shadow = pool(CONNECTIONS).after_connect(move |connection, _| {
            let path = path.clone();
            Box::pin(async move {
                set(connection, &SESSION).await?;
                // With asynchronous commits, a crash of PostgreSQL may lose recent rows, but then also their checkpoints,
                // so the replay repeats them.
                let settings = "SELECT set_config('search_path', $1, false), set_config('synchronous_commit', 'off', false)";
                sqlx::query(settings).bind(path).execute(connection).await?;
                Ok(())
            })
        });
        let pool = shadow.connect_with(options).await?;
        let store = Store { pool, writers: Writers::new(), pins_plans: Arc::default() };
        let version = store.schema_version().await?.unwrap_or_default();
        Ok(Some(Shadow { store, purpose, home, version, live, guard }))
    }

    /// Opens a database restored from a backup, from which rows are copied. It has the long timeouts of a shadow, because
    /// its tables are as large as the live ones.
    ///
    /// # Errors
    /// The URL is malformed, or the server cannot be reached.
    pub async fn open_backup(url: &str) -> Result<Store, Error> {
        let pool = pool(BACKUP_CONNECTIONS).connect_with(options(url)?).await?;
        Ok(Store { pool, writers: Writers::new(), pins_plans: Arc::default() })
    }
}

fn pool(connections: u32) -> PgPoolOptions {
    let pool = PgPoolOptions::new().acquire_timeout(ACQUIRED_WITHIN).max_connections(connections);
    pool.after_connect(|connection, _| Box::pin(async move { set(connection, &SESSION).await }))
}
