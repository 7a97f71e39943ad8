//! The live inbox as it is at one moment, however long one looks at it.

use std::collections::{HashMap, HashSet};

use domain::{AppId, StreamName, UserNumber};
use sqlx::{Executor, PgConnection, Postgres, Transaction};

use super::Shadow;
use crate::Error;
use crate::inbox::projection::INBOX;

/// The live tables as they were when the view was opened, while projections go on.
#[derive(Debug)]
pub struct View {
    pub(super) transaction: Transaction<'static, Postgres>,
    positions: HashMap<String, u64>,
    /// Users whose erasure may be under way: what of them is where does not count.
    pub(super) leaving: HashSet<(AppId, UserNumber)>,
}

impl Shadow {
    /// The last sequence that the live inbox has of each partition.
    ///
    /// # Errors
    /// The database failed.
    pub async fn live_positions(&self, partitions: u32) -> Result<Vec<u64>, Error> {
        let positions = positions(&mut *self.live.acquire().await?).await?;
        Ok(in_order(&positions, partitions))
    }

    /// Opens a view of the live tables. It keeps the server from cleaning up, and so must not last.
    ///
    /// # Errors
    /// The database failed.
    pub async fn view(&self) -> Result<View, Error> {
        let mut transaction = self.live.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        // Before the snapshot is taken: from here on nobody puts other tables in the place of these.
        transaction.execute("LOCK TABLE inbox_item, inbox_counter IN ACCESS SHARE MODE").await?;
        let positions = positions(&mut transaction).await?;
        let leaving = leaving(&mut transaction).await?;
        Ok(View { transaction, positions, leaving })
    }
}

impl View {
    /// The last sequence that it has of each partition.
    #[must_use]
    pub fn positions(&self, partitions: u32) -> Vec<u64> {
        in_order(&self.positions, partitions)
    }

    /// Ends it.
    ///
    /// # Errors
    /// The database failed.
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

/// Where an erasure is not done yet, the live tables may still have rows that no replay makes, or lack some that it does.
pub(super) async fn leaving(connection: &mut PgConnection) -> Result<HashSet<(AppId, UserNumber)>, Error> {
    let rows: Vec<(i64, i64)> =
        sqlx::query_as("SELECT app_id, user_number FROM erased WHERE done_at IS NULL")
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(|(app, user)| (AppId(app), UserNumber(user))).collect())
}
