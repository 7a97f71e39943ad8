//! Replacement of the live tables by a shadow, in one transaction.

use std::collections::{HashMap, HashSet};

use domain::{AppId, UserNumber};
use sqlx::postgres::PgPool;
use sqlx::{Connection, Executor, Postgres, Transaction};

use super::{Purpose, Shadow, tables, view};
use crate::Error;
use crate::database::columns::columns;
use crate::inbox::projection::INBOX;

/// Maximum wait for vacuums. It must be longer than `deadlock_timeout` (one second), after which PostgreSQL cancels an automatic vacuum
/// that holds the lock. Readers of the live tables do not wait meanwhile.
const VACUUMS_GIVEN: &str = "SET LOCAL lock_timeout = '1500ms'";
/// Maximum wait for running readers of the live tables. It must be much shorter than two seconds: new readers wait for the switch, and the
/// gateway abandons a call to the database after two seconds.
const READERS_GIVEN: &str = "SET LOCAL lock_timeout = '500ms'";
/// The projection is paused while the transaction of a switch is idle.
const IDLE_LIMIT: &str = "SET LOCAL idle_in_transaction_session_timeout = '30s'";
/// `lock_not_available`, and `deadlock_detected` if a reader has locked one table and waits for the other.
const LOCKED: [&str; 2] = ["55P03", "40P01"];

/// An open transaction that pauses the live projection. If the value is dropped without [`Switch::commit`], the transaction is rolled back.
#[derive(Debug)]
pub struct Switch<'s> {
    transaction: Transaction<'s, Postgres>,
    shadow: PgPool,
    version: i64,
    positions: HashMap<String, u64>,
    leaving: HashSet<(AppId, UserNumber)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchResult {
    Yes,
    /// Nothing was switched, because another session kept one of the tables locked for too long.
    Hindered,
}

impl Shadow {
    /// Locks the checkpoints, which pauses the live projection.
    ///
    /// # Errors
    /// Returns an error if another process keeps the checkpoints locked for too long.
    pub async fn hold(&mut self, streams: &[String]) -> Result<Switch<'_>, Error> {
        let mut transaction = self.guard.begin().await?;
        transaction.execute(IDLE_LIMIT).await?;
        // Creates missing checkpoints, so that a projection that has not started yet also waits for the lock.
        sqlx::query!(
            "INSERT INTO checkpoint (projection, stream, seq)
             SELECT $1, stream, 0 FROM unnest($2::text[]) AS named (stream) ORDER BY stream ON CONFLICT DO NOTHING",
            INBOX,
            streams
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query!("SELECT FROM checkpoint WHERE projection = $1 ORDER BY stream FOR UPDATE", INBOX)
            .execute(&mut *transaction)
            .await?;
        let positions = view::positions(&mut transaction).await?;
        let leaving = view::leaving(&mut transaction).await?;
        let shadow = self.store.pool.clone();
        Ok(Switch { transaction, shadow, version: self.version, positions, leaving })
    }

    /// The planner's statistics and the visibility map then exist when the tables become live.
    pub async fn vacuum(&self) -> Result<(), Error> {
        let mut connection = self.store.pool.acquire().await?;
        connection.execute("VACUUM (ANALYZE) inbox_item").await?;
        connection.execute("VACUUM (ANALYZE) inbox_counter").await?;
        Ok(())
    }
}

impl Switch<'_> {
    /// Checkpoints by partition, at which the live projection is paused.
    #[must_use]
    pub fn positions(&self, partitions: u32) -> Vec<u64> {
        view::in_order(&self.positions, partitions)
    }

    /// The dead events of the replay replace the live dead events.
    ///
    /// # Errors
    /// Returns [`Error::SchemaChanged`] if the schema was migrated after the shadow was created. If the commit itself fails, the switch may
    /// still have taken place.
    pub async fn commit(mut self) -> Result<SwitchResult, Error> {
        self.delete_leaving().await?;
        let Err(error) = self.replace_tables().await else {
            self.transaction.commit().await?;
            return Ok(SwitchResult::Yes);
        };
        // The rollback is explicit because a dropped transaction keeps its locks until the connection is used again.
        let rolled_back = self.transaction.rollback().await;
        if is_locked(&error) {
            rolled_back?;
            return Ok(SwitchResult::Hindered);
        }
        Err(error)
    }

    async fn replace_tables(&mut self) -> Result<(), Error> {
        self.lock_out_vacuums().await?;
        self.transaction.execute(READERS_GIVEN).await?;
        self.transaction.execute("LOCK TABLE inbox_item, inbox_counter IN ACCESS EXCLUSIVE MODE").await?;
        // The schema is checked only after the tables are locked, so that no migration can change them between the check and
        // the switch.
        self.check_schema().await?;
        self.transaction.execute("DROP TABLE inbox_item, inbox_counter").await?;
        self.transaction
            .execute(
                "DO $$ BEGIN
                   EXECUTE format('ALTER TABLE inbox_rebuild.inbox_item SET SCHEMA %I', current_schema());
                   EXECUTE format('ALTER TABLE inbox_rebuild.inbox_counter SET SCHEMA %I', current_schema());
                 END $$",
            )
            .await?;
        self.transaction
            .execute(
                "DELETE FROM dead_event d WHERE d.projection = 'inbox' AND NOT EXISTS (
                   SELECT FROM inbox_rebuild.dead_event n
                   WHERE (n.projection, n.stream, n.seq) = (d.projection, d.stream, d.seq))",
            )
            .await?;
        self.transaction
            .execute("INSERT INTO dead_event SELECT * FROM inbox_rebuild.dead_event ON CONFLICT DO NOTHING")
            .await?;
        tables::drop_schema(&mut self.transaction, Purpose::Replacement).await
    }

    /// Takes locks that conflict with vacuums, but not with readers of the live tables.
    async fn lock_out_vacuums(&mut self) -> Result<(), Error> {
        self.transaction.execute(VACUUMS_GIVEN).await?;
        self.transaction
            .execute(
                "LOCK TABLE inbox_rebuild.inbox_item, inbox_rebuild.inbox_counter, inbox_rebuild.checkpoint,
                   inbox_rebuild.dead_event, inbox_rebuild.message_failure IN ACCESS EXCLUSIVE MODE",
            )
            .await?;
        self.transaction
            .execute("LOCK TABLE inbox_item, inbox_counter IN SHARE UPDATE EXCLUSIVE MODE")
            .await?;
        Ok(())
    }

    /// A migration may also change the contents of tables.
    async fn check_schema(&mut self) -> Result<(), Error> {
        let version = sqlx::query_scalar!("SELECT max(version) FROM _sqlx_migrations WHERE success")
            .fetch_one(&mut *self.transaction)
            .await?;
        if version == Some(self.version) { Ok(()) } else { Err(Error::SchemaChanged) }
    }

    /// Deletes the rows of users whose erasure is not complete. The log may not contain their erasure yet, so the replay may have written
    /// these rows.
    async fn delete_leaving(&self) -> Result<(), Error> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        columns! { (app, user) in self.leaving =>
            app_id = app.0,
            user_number = user.0,
        }
        let mut transaction = self.shadow.begin().await?;
        // Existing and deleted items have separate indexes.
        let statements = [
            sqlx::query!(
                "DELETE FROM inbox_item WHERE deleted_at IS NULL
                   AND (app_id, user_number) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))",
                &app_id,
                &user_number
            ),
            sqlx::query!(
                "DELETE FROM inbox_item WHERE deleted_at IS NOT NULL
                   AND (app_id, user_number) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))",
                &app_id,
                &user_number
            ),
            sqlx::query!(
                "DELETE FROM inbox_counter
                 WHERE (app_id, user_number) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))",
                &app_id,
                &user_number
            ),
        ];
        for statement in statements {
            statement.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Database(sqlx::Error::Database(error))
        if error.code().is_some_and(|code| LOCKED.contains(&&*code)))
}
