//! Bringing a database that was restored from a backup to where the log is: what the log says of sends, jobs, plans and
//! outcomes since the backup becomes rows again.
//!
//! Every statement may run again: a restore that was interrupted begins anew. While it runs, the installation belongs to
//! no database, so that nothing starts on it.

mod apps;
mod erasures;
mod jobs;
mod numbers;
mod outcomes;
mod plans;
mod receipts;
mod sends;
mod sessions;
mod stranded;
mod unfinished;

use sqlx::{Connection as _, PgConnection};

pub use jobs::FoundJob;
pub use numbers::Numbers;
pub use outcomes::FoundOutcome;
pub use plans::{FoundPlan, RestoredPlans};
pub use sends::RestoredSends;
pub use sessions::Session;
pub use stranded::{LastJob, Stranded, StrandedAs};
pub use unfinished::Unfinished;

use crate::database::installation::identity;
use crate::{Error, Store};

/// A restore under way, the only one of its database.
#[derive(Debug)]
pub struct Restore {
    store: Store,
    /// Holds the lock, and has more time for a statement than services give it.
    connection: PgConnection,
}

impl Store {
    /// Begins a restore: from here on no service starts on the database. None where another restore is under way.
    ///
    /// # Errors
    /// The database failed.
    pub async fn begin_restore(&self) -> Result<Option<Restore>, Error> {
        let Some(mut restore) = self.restore_alone().await? else { return Ok(None) };
        sqlx::query("UPDATE installation SET system_identifier = 0, database_oid = 0")
            .execute(&mut restore.connection)
            .await?;
        Ok(Some(restore))
    }

    /// Takes the database as it is, as one that lost nothing. False, and nothing is changed, where a restore has begun
    /// and not ended: half of what the log says is in it.
    ///
    /// # Errors
    /// The database failed.
    pub async fn adopt_database(&self) -> Result<bool, Error> {
        let Some(mut restore) = self.restore_alone().await? else { return Ok(false) };
        let real = identity(&mut restore.connection).await?;
        let adopted = sqlx::query(
            "UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3
             WHERE (system_identifier, database_oid) IS DISTINCT FROM (0, 0)",
        )
        .bind(real.system_identifier)
        .bind(real.database_oid)
        .bind(real.table_oid)
        .execute(&mut restore.connection)
        .await?;
        restore.connection.close().await?;
        Ok(adopted.rows_affected() > 0)
    }

    async fn restore_alone(&self) -> Result<Option<Restore>, Error> {
        let mut connection = self.pool.acquire().await?.detach();
        let is_ours: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended('restore', 0))")
            .fetch_one(&mut connection)
            .await?;
        if !is_ours {
            return Ok(None);
        }
        sqlx::raw_sql("SET statement_timeout = '30min'; SET lock_timeout = '1min'")
            .execute(&mut connection)
            .await?;
        Ok(Some(Restore { store: self.clone(), connection }))
    }
}

impl Restore {
    /// Ends the restore: the installation belongs to this database, and services may start.
    ///
    /// # Errors
    /// The database failed; then they may not.
    pub async fn finish(mut self) -> Result<(), Error> {
        let real = identity(&mut self.connection).await?;
        let mut transaction = self.connection.begin().await?;
        sqlx::query("TRUNCATE restored_job").execute(&mut *transaction).await?;
        sqlx::query("UPDATE installation SET system_identifier = $1, database_oid = $2, table_oid = $3")
            .bind(real.system_identifier)
            .bind(real.database_oid)
            .bind(real.table_oid)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        self.connection.close().await?;
        Ok(())
    }
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
