//! Restore of a database from a backup and the log: writes rows for what the log has recorded since the backup. A delivery without an
//! outcome in the log ends as `unknown`. A send whose plan the log does not contain is planned again.
//!
//! All statements are safe to repeat, because a restore that was interrupted starts again from the beginning. During a restore, the table
//! `installation` contains an invalid identity of the database, so that no service starts.

mod apps;
mod erasures;
mod jobs;
mod outcomes;
mod plans;
mod sends;
mod unfinished;
mod unknown;

use sqlx::{Connection as _, PgConnection};

pub use jobs::FoundJob;
pub use outcomes::FoundOutcome;
pub use plans::{FoundPlan, RestoredPlans};
pub use sends::RestoredSends;
pub use unfinished::UnfinishedSend;

use crate::database::connection::APPLICATION;
use crate::database::installation::identity;
use crate::{Error, Recovery, Store};

/// Each gap is larger than the number of rows that can have been created since the backup, so that no id is assigned twice.
const GAPS: [(&str, &str, i64); 4] = [
    ("app", "id", 1_000_000),
    ("category", "id", 1_000_000),
    ("template", "id", 1_000_000),
    ("app_user", "number", 1_000_000_000),
];

#[derive(Debug)]
pub struct Restore {
    store: Store,
    /// Session that holds the advisory lock. Its statement timeout is longer than that of services.
    connection: PgConnection,
}

impl Recovery<'_> {
    /// Until the restore is finished, no service starts on the database. Returns None if another restore is running.
    pub async fn begin_restore(self) -> Result<Option<Restore>, Error> {
        let Some(mut restore) = self.restore_alone().await? else { return Ok(None) };
        sqlx::query!("UPDATE installation SET system_identifier = 0, database_oid = 0")
            .execute(&mut restore.connection)
            .await?;
        Ok(Some(restore))
    }

    /// Stores this database's identity without a restore, so that services can start. Returns false and changes nothing if a restore is
    /// running or was interrupted: the database then contains only a part of the log's effects.
    pub async fn adopt_database(self) -> Result<bool, Error> {
        let Some(mut restore) = self.restore_alone().await? else { return Ok(false) };
        let real = identity(&mut restore.connection).await?;
        let adopted = sqlx::query!(
            "UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3
             WHERE (system_identifier, database_oid) IS DISTINCT FROM (0, 0)",
            real.system_identifier,
            real.database_oid,
            real.table_oid
        )
        .execute(&mut restore.connection)
        .await?;
        restore.connection.close().await?;
        Ok(adopted.rows_affected() > 0)
    }

    /// Process ids of the sessions that other services and commands have on this database. The result would include further connections of
    /// this process, so call this before opening any.
    pub async fn other_sessions(self) -> Result<Vec<i32>, Error> {
        let sessions = sqlx::query_scalar!(
            r#"SELECT pid AS "pid!" FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid() ORDER BY pid"#,
            APPLICATION
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(sessions)
    }

    async fn restore_alone(self) -> Result<Option<Restore>, Error> {
        let mut connection = self.0.pool.acquire().await?.detach();
        let is_locked = sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_lock(hashtextextended('restore', 0)) AS "is_locked!""#
        )
        .fetch_one(&mut connection)
        .await?;
        if !is_locked {
            return Ok(None);
        }
        sqlx::raw_sql("SET statement_timeout = '30min'; SET lock_timeout = '1min'")
            .execute(&mut connection)
            .await?;
        Ok(Some(Restore { store: self.0.clone(), connection }))
    }
}

impl Restore {
    /// Skips ids, and stores this database's identity, so that services can start. After an error, services still refuse to start.
    pub async fn finish(mut self) -> Result<(), Error> {
        let real = identity(&mut self.connection).await?;
        let mut transaction = self.connection.begin().await?;
        for (table, column, gap) in GAPS {
            sqlx::query!(
                "SELECT setval(sequence, nextval(sequence) + $3)
                 FROM (SELECT pg_get_serial_sequence($1, $2)::regclass AS sequence) AS named",
                table,
                column,
                gap
            )
            .fetch_one(&mut *transaction)
            .await?;
        }
        sqlx::query!(
            "UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3",
            real.system_identifier,
            real.database_oid,
            real.table_oid
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        self.connection.close().await?;
        Ok(())
    }
}
