//! Writing the inbox read model: one transaction per batch of events, fenced by the checkpoint.

mod change;

pub use domain::inbox::fold::{Changed, ItemKey, NewItem, WholeInbox};

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::inbox::{Counts, ItemState};
use domain::{AppId, StreamName, UserNumber};
use futures_util::FutureExt as _;
use sabotage::{CrashPoint, Mutant};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row, Transaction};

use crate::database::instant::instant;
use crate::{Error, Store, database::failure};

/// Name of the inbox projection in `checkpoint`.
pub const INBOX: &str = "inbox";

/// A batch of a projection under way. Dropped without [`Batch::commit`], it leaves no trace.
#[derive(Debug)]
pub struct Batch {
    transaction: Transaction<'static, Postgres>,
    counts: BTreeMap<(AppId, UserNumber), Counts>,
}

impl Store {
    /// The last sequence of `stream` that a projection committed; 0 before the first.
    ///
    /// # Errors
    /// The database failed.
    pub async fn checkpoint(&self, projection: &str, stream: StreamName) -> Result<u64, Error> {
        let seq: Option<i64> =
            sqlx::query_scalar("SELECT seq FROM checkpoint WHERE projection = $1 AND stream = $2")
                .bind(projection)
                .bind(stream.to_string())
                .fetch_optional(&self.pool)
                .await?;
        Ok(seq.unwrap_or(0).cast_unsigned())
    }

    /// Begins a batch of the inbox projection that takes the checkpoint from `from` to `to`. None when the
    /// checkpoint is not at `from`: another writer is ahead.
    ///
    /// Its commit waits for the disk, although the log could bring back what a crash took away: until then lists would
    /// deny what they have shown.
    ///
    /// # Errors
    /// The database failed.
    pub async fn project(&self, stream: StreamName, from: u64, to: u64) -> Result<Option<Batch>, Error> {
        let mut transaction = self.begin().await?;
        let moved = advance(&mut transaction, INBOX, stream, from, to).await?;
        Ok(moved.then_some(Batch { transaction, counts: BTreeMap::new() }))
    }
}

/// Takes a projection's checkpoint from `from` to `to`. False when it is not at `from`.
pub(crate) async fn advance(
    connection: &mut PgConnection,
    projection: &str,
    stream: StreamName,
    from: u64,
    to: u64,
) -> Result<bool, Error> {
    let moved = if sabotage::is(Mutant::UnfencedCheckpoint) {
        sqlx::query("INSERT INTO checkpoint (projection, stream, seq) VALUES ($1, $2, $4)
                     ON CONFLICT (projection, stream) DO UPDATE SET seq = excluded.seq WHERE $3::bigint IS NOT NULL")
    } else if from == 0 {
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

/// Keeps an event that fails by itself, in the transaction that passes it.
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

/// The statement that inserts items, with an end that says what becomes of those that are there.
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
    /// Adds items of which the inbox has none, and had none, from the same send. Costs two thirds of
    /// [`Batch::add`].
    ///
    /// # Errors
    /// The inbox has one of them, and the data is refused; or the database failed. The batch is then void.
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

    /// Adds items. Those that the inbox has, or had, from the same send are left out; of several in one batch the one
    /// with the lowest id stays, so that a replay in other batches keeps the same.
    ///
    /// # Errors
    /// The database failed; the batch is then void.
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

    /// Sets an event aside that keeps failing by itself, in the transaction of the checkpoint that passes it.
    ///
    /// # Errors
    /// The database failed; the batch is then void.
    pub async fn bury(
        &mut self,
        stream: StreamName,
        seq: u64,
        message: &[u8],
        cause: &str,
    ) -> Result<(), Error> {
        set_aside(&mut self.transaction, INBOX, stream, seq, message, cause).await
    }

    /// Moves the counters, in key order, and commits everything with the checkpoint.
    ///
    /// # Errors
    /// The database failed; whether it was committed is then unknown, and the checkpoint tells.
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
            // Polled once, it is on its way.
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

/// Each distinct content once, and for each item the number of its content, from 1.
fn number_contents(items: &[NewItem]) -> (Vec<&str>, Vec<i64>) {
    let mut contents: Vec<&str> = Vec::new();
    let mut last: Option<&Arc<str>> = None;
    let numbers = items
        .iter()
        .map(|item| {
            // Items of one event stand together, so comparing with the last one finds what they share.
            if !last.is_some_and(|last| Arc::ptr_eq(last, &item.content)) {
                contents.push(&item.content);
                last = Some(&item.content);
            }
            i64::try_from(contents.len()).unwrap_or(i64::MAX)
        })
        .collect();
    (contents, numbers)
}
