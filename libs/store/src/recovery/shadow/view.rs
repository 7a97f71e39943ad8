use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use domain::{AppId, StreamName, UserNumber};
use sqlx::{Executor, PgConnection, Postgres, Transaction};

use super::Shadow;
use crate::Error;
use crate::inbox::projection::INBOX;

/// A snapshot of the live tables. While it is open, projections continue to write to the tables.
#[derive(Debug)]
pub struct View {
    pub(super) transaction: Transaction<'static, Postgres>,
    positions: HashMap<String, u64>,
    pub(super) leaving: HashSet<(AppId, UserNumber)>,
    /// Items that were created before this time are not compared, because the retention may have removed them from the live tables. None if
    /// it has never removed items.
    pub(super) removed_before: Option<DateTime<Utc>>,
}

impl Shadow {
    /// Sequence numbers of the last events that the live inbox contains, by partition.
    pub async fn live_positions(&self, partitions: u32) -> Result<Vec<u64>, Error> {
        let positions = positions(&mut *self.live.acquire().await?).await?;
        Ok(in_order(&positions, partitions))
    }

    /// While a view is open, PostgreSQL cannot remove dead rows, so the caller should close it soon.
    pub async fn view(&self) -> Result<View, Error> {
        let mut transaction = self.live.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        // The lock comes before the first query, which takes the snapshot. Otherwise a switch could replace the tables
        // between the snapshot and the lock.
        transaction.execute("LOCK TABLE inbox_item, inbox_counter IN ACCESS SHARE MODE").await?;
        let positions = positions(&mut transaction).await?;
        let leaving = leaving(&mut transaction).await?;
        let removed_before = sqlx::query_scalar!("SELECT inbox_removed_before FROM installation")
            .fetch_optional(&mut *transaction)
            .await?
            .flatten();
        Ok(View { transaction, positions, leaving, removed_before })
    }
}

impl View {
    /// Sequence numbers of the last events that the view contains, by partition.
    #[must_use]
    pub fn positions(&self, partitions: u32) -> Vec<u64> {
        in_order(&self.positions, partitions)
    }

    pub async fn close(self) -> Result<(), Error> {
        self.transaction.rollback().await?;
        Ok(())
    }
}

pub(super) async fn positions(connection: &mut PgConnection) -> Result<HashMap<String, u64>, Error> {
    let rows = sqlx::query!("SELECT stream, seq FROM checkpoint WHERE projection = $1", INBOX)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| (row.stream, row.seq.cast_unsigned())).collect())
}

pub(super) fn in_order(positions: &HashMap<String, u64>, partitions: u32) -> Vec<u64> {
    let of = |number| positions.get(&StreamName::Inbox(number).to_string()).copied().unwrap_or(0);
    (0..partitions).map(of).collect()
}

/// A comparison must skip users whose erasure is not complete, because their rows may already be deleted from only one of the two sets of
/// tables.
pub(super) async fn leaving(connection: &mut PgConnection) -> Result<HashSet<(AppId, UserNumber)>, Error> {
    let rows = sqlx::query!("SELECT app_id, user_number FROM erased WHERE done_at IS NULL")
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| (AppId(row.app_id), UserNumber(row.user_number))).collect())
}
