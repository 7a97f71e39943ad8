//! One transaction writes the changes of each batch of events and moves the checkpoint. If another process has moved the checkpoint
//! already, the batch is not written.

mod change;
mod counter;

pub use domain::inbox::fold::{NewItem, WholeInbox};
pub use domain::inbox::item_change::{ItemKey, StateChange};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, StreamName, UserNumber};
use futures_util::FutureExt as _;
use sabotage::CrashPoint;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use crate::database::checkpoint;
use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::{Error, Inbox};

/// Name of the projection in the table `checkpoint`.
pub const INBOX: &str = "inbox";

/// Lock timeout of a transaction for which several partitions may wait.
const TOGETHER: Duration = Duration::from_millis(200);

/// A batch of changes in an open transaction. If it is dropped without [`InboxTransaction::commit`], the transaction is rolled back. If a
/// method returns an error, the caller must drop the batch.
#[derive(Debug)]
pub struct InboxTransaction {
    pub(super) transaction: Transaction<'static, Postgres>,
    pub(super) counts: BTreeMap<(AppId, UserNumber), Counts>,
}

impl Inbox<'_> {
    /// Returns None if the checkpoint is not at `from`, because another process has moved it.
    ///
    /// The commit waits until PostgreSQL has written the data to disk. Without this, a crash could lose rows. The projection would write
    /// them again from the log, but until then items that users have already seen would be missing from their inboxes.
    pub async fn project(
        self,
        stream: StreamName,
        from: u64,
        to: u64,
    ) -> Result<Option<InboxTransaction>, Error> {
        let mut transaction = self.0.begin().await?;
        let moved = checkpoint::advance(&mut transaction, INBOX, stream, from, to).await?;
        Ok(moved.then_some(InboxTransaction { transaction, counts: BTreeMap::new() }))
    }

    /// Moves the checkpoints of several streams in one transaction, in the given order. For each stream, returns false if its checkpoint is
    /// not at `from`: the caller must not write its rows. Waits only briefly for locks, because the streams locked before wait meanwhile.
    pub async fn project_all(
        self,
        spans: &[(StreamName, u64, u64)],
    ) -> Result<(InboxTransaction, Vec<bool>), Error> {
        let mut transaction = self.0.begin_with_limit(TOGETHER).await?;
        let moved = checkpoint::advance_all(&mut transaction, INBOX, spans).await?;
        Ok((InboxTransaction { transaction, counts: BTreeMap::new() }, moved))
    }
}

/// The first argument is the end of the statement, which defines what happens to items that already exist.
macro_rules! insert_items {
    ($end:literal, $columns:expr) => {
        sqlx::query!(
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, category_id, created_at, event_id, content)
             SELECT app_id, user_number, id, send_id, category_id, created_at, event_id,
               (SELECT $9::text[]::json[])[content_number]
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::uuid[],
               $8::int[]) AS new (app_id, user_number, id, send_id, category_id, created_at, event_id, content_number) "
                + $end,
            &$columns.app_id,
            &$columns.user_number,
            &$columns.id,
            &$columns.send_id,
            &$columns.category_id as &[Option<i64>],
            &$columns.created_at,
            &$columns.event_id,
            &$columns.content_number,
            &$columns.content as &[&str]
        )
    };
}

impl InboxTransaction {
    /// Like [`InboxTransaction::add`], but in about two thirds of the time.
    ///
    /// # Errors
    /// Returns an error if one of the sends has already added an item to the same inbox.
    pub async fn add_new(&mut self, items: &[NewItem]) -> Result<(), Error> {
        if items.is_empty() {
            return Ok(());
        }
        let columns = ItemColumns::of(items);
        insert_items!("", columns).execute(&mut *self.transaction).await?;
        for item in items {
            self.count(item.app, item.user, ItemState::default().counts());
        }
        Ok(())
    }

    /// Skips an item if its send has already added an item to the same inbox. If a batch contains several items of one send for an inbox,
    /// adds the item with the lowest id. Therefore a replay that divides the events into different batches has the same result.
    pub async fn add(&mut self, items: &[NewItem]) -> Result<(), Error> {
        if items.is_empty() {
            return Ok(());
        }
        let columns = ItemColumns::of(items);
        let rows = insert_items!("ORDER BY id ON CONFLICT DO NOTHING RETURNING app_id, user_number", columns)
            .fetch_all(&mut *self.transaction)
            .await?;
        for row in rows {
            self.count(AppId(row.app_id), UserNumber(row.user_number), ItemState::default().counts());
        }
        Ok(())
    }

    /// Stores an event whose processing keeps failing. The same transaction moves the checkpoint past the event.
    pub async fn dead_letter(
        &mut self,
        stream: StreamName,
        seq: u64,
        message: &[u8],
        cause: &str,
    ) -> Result<(), Error> {
        checkpoint::dead_letter(&mut self.transaction, INBOX, stream, seq, message, cause).await
    }

    /// Updates the counters, then commits. After an error, the batch may still have been committed; the checkpoint has then moved.
    pub async fn commit(mut self) -> Result<(), Error> {
        counter::add(&mut self.transaction, self.counts).await?;
        if sabotage::is_due(CrashPoint::InCommit) {
            // Poll the future once, which sends `COMMIT` but does not wait for the result.
            self.transaction.commit().now_or_never();
            sabotage::die(CrashPoint::InCommit);
            return Ok(());
        }
        self.transaction.commit().await?;
        Ok(())
    }

    pub(super) fn count(&mut self, app: AppId, user: UserNumber, counts: Counts) {
        *self.counts.entry((app, user)).or_default() += counts;
    }
}

/// The columns of new items, which refer to the distinct contents by number.
struct ItemColumns<'a> {
    app_id: Vec<i64>,
    user_number: Vec<i64>,
    id: Vec<i64>,
    send_id: Vec<Uuid>,
    category_id: Vec<Option<i64>>,
    created_at: Vec<DateTime<Utc>>,
    event_id: Vec<Uuid>,
    content_number: Vec<i32>,
    content: Vec<&'a str>,
}

impl ItemColumns<'_> {
    fn of(items: &[NewItem]) -> ItemColumns<'_> {
        columns! { item in items =>
            app_id = item.app.0,
            user_number = item.user.0,
            id = item.id.0,
            send_id = item.send_id.0,
            category_id = item.category.map(|id| id.0),
            created_at = instant(item.created_at),
            event_id = item.event_id,
        }
        let (content, content_number) = number_contents(items);
        ItemColumns {
            app_id,
            user_number,
            id,
            send_id,
            category_id,
            created_at,
            event_id,
            content_number,
            content,
        }
    }
}

/// Numbers start at 1.
fn number_contents(items: &[NewItem]) -> (Vec<&str>, Vec<i32>) {
    let mut contents: Vec<&str> = Vec::new();
    let mut last: Option<&Arc<str>> = None;
    let numbers = items
        .iter()
        .map(|item| {
            // Items that share their content are from one event and therefore adjacent, so only the previous content is
            // compared.
            if !last.is_some_and(|last| Arc::ptr_eq(last, &item.content)) {
                contents.push(&item.content);
                last = Some(&item.content);
            }
            integer(contents.len())
        })
        .collect();
    (contents, numbers)
}
