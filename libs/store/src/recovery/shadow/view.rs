//! A snapshot of the live inbox.

use std::collections::{HashMap, HashSet};

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
    /// Users whose erasure is not complete. Their rows are not compared.
    pub(super) leaving: HashSet<(AppId, UserNumber)>,
}

impl Shadow {
    /// Returns, for each partition, the sequence number of the last event that the live inbox contains.
    pub async fn live_positions(&self, partitions: u32) -> Result<Vec<u64>, Error> {
        let positions = positions(&mut *self.live.acquire().await?).await?;
        Ok(in_order(&positions, partitions))
    }

    /// Opens a view of the live tables. While a view is open, PostgreSQL cannot remove dead rows, so the caller should close
    /// it soon.
    pub async fn view(&self) -> Result<View, Error> {
        let mut transaction = self.live.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        // The tables are locked before the transaction has a snapshot, so that no switch can replace them.
        transaction.execute("LOCK TABLE inbox_item, inbox_counter IN ACCESS SHARE MODE").await?;
        let positions = positions(&mut transaction).await?;
        let leaving = leaving(&mut transaction).await?;
        Ok(View { transaction, positions, leaving })
    }
}

impl View {
    /// Returns, for each partition, the sequence number of the last event that the view contains.
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
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT stream, seq FROM checkpoint WHERE projection = $1")
        .bind(INBOX)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|(stream, seq)| (stream, seq.cast_unsigned())).collect())
}

pub(super) fn in_order(positions: &HashMap<String, u64>, partitions: u32) -> Vec<u64> {
    let of = |number| positions.get(&StreamName::Inbox(number).to_string()).copied().unwrap_or(0);
    (0..partitions).map(of).collect()
}

/// Returns the users whose erasure is not complete. A comparison must skip them, because their rows may already be deleted
/// from only one of the two sets of tables.
pub(super) async fn leaving(connection: &mut PgConnection) -> Result<HashSet<(AppId, UserNumber)>, Error> {
    let rows: Vec<(i64, i64)> =
        sqlx::query_as("SELECT app_id, user_number FROM erased WHERE done_at IS NULL")
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(|(app, user)| (AppId(app), UserNumber(user))).collect())
}
