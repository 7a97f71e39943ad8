//! Writing the inbox read model. Each batch of events is one transaction, which also moves the checkpoint; a batch whose
//! checkpoint has already moved is not written.

mod change;

pub use domain::inbox::fold::{Changed, ItemKey, NewItem, WholeInbox};

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::inbox::{Counts, ItemState};
use domain::{AppId, StreamName, UserNumber};
use futures_util::FutureExt as _;
use sabotage::CrashPoint;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row, Transaction};

use crate::database::instant::instant;
use crate::{Error, Inbox, database::failure};

/// Name of the inbox projection in `checkpoint`.
pub const INBOX: &str = "inbox";

/// A batch of the projection in an open transaction. Dropping it without [`Batch::commit`] rolls it back.
#[derive(Debug)]
pub struct Batch {
    transaction: Transaction<'static, Postgres>,
    counts: BTreeMap<(AppId, UserNumber), Counts>,
}

impl Inbox<'_> {
    /// Returns the last sequence number of `stream` that a projection has committed; 0 if it has committed none.
    pub async fn checkpoint(self, projection: &str, stream: StreamName) -> Result<u64, Error> {
        let seq: Option<i64> =
            sqlx::query_scalar("SELECT seq FROM checkpoint WHERE projection = $1 AND stream = $2")
                .bind(projection)
                .bind(stream.to_string())
                .fetch_optional(&self.0.pool)
                .await?;
        Ok(seq.unwrap_or(0).cast_unsigned())
    }

    /// Starts a batch of the inbox projection that moves the checkpoint from `from` to `to`. Returns None if the checkpoint
    /// is not at `from`, which means that another writer has moved it.
    ///
    /// The commit waits until the data is on disk. After a crash, lost rows could be restored from the log, but until then
    /// items that readers have already seen would be missing.
    pub async fn project(self, stream: StreamName, from: u64, to: u64) -> Result<Option<Batch>, Error> {
        let mut transaction = self.0.begin().await?;
        let moved = advance(&mut transaction, INBOX, stream, from, to).await?;
        Ok(moved.then_some(Batch { transaction, counts: BTreeMap::new() }))
    }
}

/// Moves a projection's checkpoint from `from` to `to`. Returns false if the checkpoint is not at `from`.
pub(crate) async fn advance(
    connection: &mut PgConnection,
    projection: &str,
    stream: StreamName,
    from: u64,
    to: u64,
) -> Result<bool, Error> {
    let moved = if from == 0 {
        sqlx::query("INSERT INTO checkpoint (projection, stream, seq) VALUES ($1, $2, $4)
                     ON CONFLICT (projection, stream) DO UPDATE SET seq = excluded.seq WHERE checkpoint.seq = $3")
    } else {
        sqlx::query("UPDATE checkpoint SET seq = $4 WHERE projection = $1 AND stream = $2 AND seq = $3")
    }
    .bind(projection)
    .bind(stream.to_string())
    .bind(from.cast_signed())
    .bind(to.cast_signed())
    .execute(connection)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Stores an event whose processing always fails as a dead event, in the transaction that moves the checkpoint past it.
pub(crate) async fn set_aside(
    connection: &mut PgConnection,
    projection: &str,
    stream: StreamName,
    seq: u64,
    message: &[u8],
    cause: &str,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO dead_event (projection, stream, seq, message, cause) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
    )
    .bind(projection)
    .bind(stream.to_string())
    .bind(seq.cast_signed())
    .bind(message)
    .bind(cause)
    .execute(&mut *connection)
    .await?;
    failure::forget(connection, stream, seq).await
}

/// Statement that inserts items; `$end` is its clause for items that already exist.
macro_rules! insert_items {
    ($end:literal) => {
        concat!(
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, event_id, content)
             SELECT app_id, user_number, id, send_id, category_id, created_at, event_id, content.text::json
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::uuid[],
               $8::bigint[]) AS new (app_id, user_number, id, send_id, category_id, created_at, event_id, content_number)
             JOIN unnest($9::text[]) WITH ORDINALITY AS content (text, content_number) USING (content_number) ",
            $end
        )
    };
}

impl Batch {
    /// Adds items from sends that have never added an item to the inbox before. Takes about two thirds of the time of
    /// [`Batch::add`].
    ///
    /// # Errors
    /// The inbox already has or had an item of one of the sends, or the database failed. The batch must be dropped.
    pub async fn add_new(&mut self, items: &[NewItem]) -> Result<(), Error> {
        if items.is_empty() {
            return Ok(());
        }
        bind_items(insert_items!(""), items).execute(&mut *self.transaction).await?;
        for item in items {
            self.count(item.app, item.user, ItemState::default().counts());
        }
        Ok(())
    }

    /// Adds items. Skips items of a send that has already added an item to the same inbox. If a batch has several items of
    /// one send for an inbox, adds the one with the lowest id, so that a replay with other batches has the same result.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn add(&mut self, items: &[NewItem]) -> Result<(), Error> {
        if items.is_empty() {
            return Ok(());
        }
        let statement = insert_items!("ORDER BY id ON CONFLICT DO NOTHING RETURNING app_id, user_number");
        let rows = bind_items(statement, items).fetch_all(&mut *self.transaction).await?;
        for row in rows {
            self.count(AppId(row.try_get(0)?), UserNumber(row.try_get(1)?), ItemState::default().counts());
        }
        Ok(())
    }

    /// Stores an event whose processing always fails as a dead event, in the transaction that moves the checkpoint past it.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn bury(
        &mut self,
        stream: StreamName,
        seq: u64,
        message: &[u8],
        cause: &str,
    ) -> Result<(), Error> {
        set_aside(&mut self.transaction, INBOX, stream, seq, message, cause).await
    }

    /// Updates the counters in key order, and commits items, counters and checkpoint.
    ///
    /// # Errors
    /// The database failed. The batch may have been committed nevertheless; in this case, the checkpoint has moved.
    pub async fn commit(mut self) -> Result<(), Error> {
        self.counts.retain(|_, counts| *counts != Counts::default());
        if !self.counts.is_empty() {
            sqlx::query(
                "INSERT INTO inbox_counter AS c (app_id, user_number, total, unread, unseen)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                 ON CONFLICT (app_id, user_number) DO UPDATE SET total = c.total + excluded.total,
                   unread = c.unread + excluded.unread, unseen = c.unseen + excluded.unseen",
            )
            .bind(self.counts.keys().map(|(app, _)| app.0).collect::<Vec<_>>())
            .bind(self.counts.keys().map(|(_, user)| user.0).collect::<Vec<_>>())
            .bind(self.counts.values().map(|counts| counts.total).collect::<Vec<_>>())
            .bind(self.counts.values().map(|counts| counts.unread).collect::<Vec<_>>())
            .bind(self.counts.values().map(|counts| counts.unseen).collect::<Vec<_>>())
            .execute(&mut *self.transaction)
            .await?;
        }
        if sabotage::is_due(CrashPoint::InCommit) {
            // Polling the future once sends the `COMMIT` without waiting for its result.
            self.transaction.commit().now_or_never();
            sabotage::die(CrashPoint::InCommit);
            return Ok(());
        }
        self.transaction.commit().await?;
        Ok(())
    }

    fn count(&mut self, app: AppId, user: UserNumber, counts: Counts) {
        *self.counts.entry((app, user)).or_default() += counts;
    }
}

fn bind_items<'q>(statement: &'static str, items: &'q [NewItem]) -> Query<'q, Postgres, PgArguments> {
    let (contents, numbers) = number_contents(items);
    sqlx::query(statement)
        .bind(items.iter().map(|item| item.app.0).collect::<Vec<_>>())
        .bind(items.iter().map(|item| item.user.0).collect::<Vec<_>>())
        .bind(items.iter().map(|item| item.id.0).collect::<Vec<_>>())
        .bind(items.iter().map(|item| item.send_id.0).collect::<Vec<_>>())
        .bind(items.iter().map(|item| item.category.map(|id| id.0)).collect::<Vec<_>>())
        .bind(items.iter().map(|item| instant(item.created_at)).collect::<Vec<_>>())
        .bind(items.iter().map(|item| item.event_id).collect::<Vec<_>>())
        .bind(numbers)
        .bind(contents)
}

/// Returns the distinct contents, and for each item the number of its content, from 1.
fn number_contents(items: &[NewItem]) -> (Vec<&str>, Vec<i64>) {
    let mut contents: Vec<&str> = Vec::new();
    let mut last: Option<&Arc<str>> = None;
    let numbers = items
        .iter()
        .map(|item| {
            // Items with a shared content are adjacent, because they are from one event, so only the previous content is
            // compared.
            if !last.is_some_and(|last| Arc::ptr_eq(last, &item.content)) {
                contents.push(&item.content);
                last = Some(&item.content);
            }
            i64::try_from(contents.len()).unwrap_or(i64::MAX)
        })
        .collect();
    (contents, numbers)
}
