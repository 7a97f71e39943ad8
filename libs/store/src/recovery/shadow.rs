//! Shadows of the inbox. A shadow is a second set of the inbox tables, which a replay of the log fills.
//!
//! The tables of a shadow are in a separate schema, which is first in the search path of the shadow's connections. The statements that
//! write the inbox therefore write to the shadow, which has its own checkpoints. For tables that the shadow does not have, such as those of
//! the directory, the statements use the live tables.

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

/// The statement timeout is long because one statement compares all inboxes or builds an index. The idle timeout is long because a view of
/// the live tables waits until the shadow has caught up, and because each side of a comparison waits for the other.
const SESSION: [(&str, &str); 3] =
    [("statement_timeout", "2h"), ("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "2h")];
const ACQUIRED_WITHIN: Duration = Duration::from_secs(30);
const CONNECTIONS: u32 = 6;
const LIVE_CONNECTIONS: u32 = 2;
const BACKUP_CONNECTIONS: u32 = 2;

/// Determines the schema of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The shadow is compared with the live tables and then dropped. Its tables are unlogged: after a crash of PostgreSQL they are empty.
    Comparison,
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

/// Access to a shadow and to the live tables. For each purpose, only one process at a time can have a shadow.
#[derive(Debug)]
pub struct Shadow {
    /// Uses the inbox tables of the shadow and the live tables of the directory.
    pub store: Store,
    purpose: Purpose,
    /// Schema of the live tables.
    home: String,
    /// Version of the live schema when the shadow was opened.
    version: i64,
    live: PgPool,
    /// Session that holds the advisory lock.
    guard: PgConnection,
}

impl Shadow {
    /// The shadow's tables need not exist. Returns None if another process has the lock.
    pub async fn take(settings: &Settings, purpose: Purpose) -> Result<Option<Shadow>, Error> {
        let options = options(&settings.url)?;
        let mut guard = PgConnection::connect_with(&options).await?;
        set(&mut guard, &SESSION).await?;
        let taken = sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS "taken!""#,
            purpose.schema()
        )
        .fetch_one(&mut guard)
        .await?;
        if !taken {
            return Ok(None);
        }
        let home =
            sqlx::query_scalar!(r#"SELECT current_schema()::text AS "home!""#).fetch_one(&mut guard).await?;
        let path = sqlx::query_scalar!(
            r#"SELECT concat(quote_ident($1), ', ', quote_ident($2)) AS "path!""#,
            purpose.schema(),
            home
        )
        .fetch_one(&mut guard)
        .await?;
        let live = pool(LIVE_CONNECTIONS).connect_with(options.clone()).await?;
        let shadow = pool(CONNECTIONS).after_connect(move |connection, _| {
            let path = path.clone();
            Box::pin(async move {
                set(connection, &SESSION).await?;
                // Commits are asynchronous, so a crash of PostgreSQL may lose recent rows. It then also loses the
                // checkpoints written after these rows, so the replay writes the rows again.
                sqlx::query!(
                    "SELECT set_config('search_path', $1, false) AS path,
                       set_config('synchronous_commit', 'off', false) AS commits",
                    path
                )
                .fetch_one(connection)
                .await?;
                Ok(())
            })
        });
        let pool = shadow.connect_with(options).await?;
        let store = Store { pool, writers: Writers::new(), pinned_at: Arc::default() };
        let version = store.schema_version().await?.unwrap_or_default();
        Ok(Some(Shadow { store, purpose, home, version, live, guard }))
    }

    /// The sessions have the long timeouts of a shadow, because the backup's tables are as large as the live tables.
    pub async fn open_backup(url: &str) -> Result<Store, Error> {
        let pool = pool(BACKUP_CONNECTIONS).connect_with(options(url)?).await?;
        Ok(Store { pool, writers: Writers::new(), pinned_at: Arc::default() })
    }
}

fn pool(connections: u32) -> PgPoolOptions {
    let pool = PgPoolOptions::new().acquire_timeout(ACQUIRED_WITHIN).max_connections(connections);
    pool.after_connect(|connection, _| Box::pin(async move { set(connection, &SESSION).await }))
}
