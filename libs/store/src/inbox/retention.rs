//! Removal of items that are too old, together with the rows of items that were deleted earlier.
//!
//! The transaction first locks the checkpoint of the partition, as the projection does, so both never write the same inbox at the same
//! time. Items that exceed the maximum of an inbox are only found here; an event in the log deletes them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, ItemId, StreamName, Timestamp, UserNumber};

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::inbox::projection::{INBOX, InboxTransaction, ItemKey};
use crate::{Error, Inbox};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxSize {
    pub app: AppId,
    pub user: UserNumber,
    /// Includes archived and snoozed items.
    pub items: i64,
}

impl Inbox<'_> {
    /// Lists the oldest rows first, including rows of deleted items.
    pub async fn items_before(self, before: Timestamp, most: u32) -> Result<Vec<ItemKey>, Error> {
        let rows = sqlx::query!(
            "SELECT app_id, user_number, id FROM inbox_item WHERE created_at < $1 ORDER BY created_at LIMIT $2",
            instant(before),
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| (AppId(row.app_id), UserNumber(row.user_number), ItemId(row.id)))
            .collect())
    }

    /// Deletes rows of one partition, and updates the counters of their users. While this runs, the projection of the partition waits.
    ///
    /// First stores `before`, so that readers know which items may be missing. This is a separate transaction: if a reader sees that an
    /// item is missing, it therefore also sees the time.
    pub async fn remove_items(
        self,
        stream: StreamName,
        before: Timestamp,
        keys: &[ItemKey],
    ) -> Result<u64, Error> {
        sqlx::query!(
            "UPDATE installation SET inbox_removed_before = $1
             WHERE inbox_removed_before IS NULL OR inbox_removed_before < $1",
            instant(before)
        )
        .execute(&self.0.pool)
        .await?;
        let mut transaction = self.0.begin().await?;
        let locked = sqlx::query!(
            "SELECT seq FROM checkpoint WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
             AND stream BETWEEN (SELECT $2) AND (SELECT $2)
             ORDER BY stream DESC LIMIT 1 FOR UPDATE",
            INBOX,
            stream.to_string()
        )
        .fetch_optional(&mut *transaction)
        .await?;
        if locked.is_none() {
            // The projection has written nothing yet, and without its checkpoint it cannot be paused.
            return Ok(0);
        }
        let mut batch = InboxTransaction { transaction, counts: BTreeMap::new() };
        let removed = batch.remove(keys).await?;
        batch.commit().await?;
        Ok(removed)
    }

    /// Ordered by app and user.
    pub async fn inbox_sizes(
        self,
        (app, user): (AppId, UserNumber),
        most: u32,
    ) -> Result<Vec<InboxSize>, Error> {
        let rows = sqlx::query!(
            r#"SELECT app_id, user_number, total + hidden AS "items!" FROM inbox_counter WHERE (app_id, user_number) > ($1, $2)
             ORDER BY app_id, user_number LIMIT $3"#,
            app.0,
            user.0,
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| InboxSize {
                app: AppId(row.app_id),
                user: UserNumber(row.user_number),
                items: row.items,
            })
            .collect())
    }

    /// Lists the oldest items that exceed the newest `keep` items. The order is that of lists.
    pub async fn surplus_items(
        self,
        app: AppId,
        user: UserNumber,
        keep: u32,
        most: u32,
    ) -> Result<Vec<ItemId>, Error> {
        let ids = sqlx::query_scalar!(
            "SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND deleted_at IS NULL
             ORDER BY created_at, id LIMIT coalesce(
               (SELECT least(greatest(total + hidden - $3, 0), $4) FROM inbox_counter
                WHERE app_id = $1 AND app_id BETWEEN (SELECT $1::bigint) AND (SELECT $1::bigint)
                  AND user_number BETWEEN (SELECT $2::bigint) AND (SELECT $2::bigint)
                ORDER BY user_number DESC LIMIT 1), 0)",
            app.0,
            user.0,
            i64::from(keep),
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(ids.into_iter().map(ItemId).collect())
    }
}

impl InboxTransaction {
    async fn remove(&mut self, keys: &[ItemKey]) -> Result<u64, Error> {
        columns! { (app, user, item) in keys =>
            app_id = app.0,
            user_number = user.0,
            id = item.0,
        }
        let rows = sqlx::query_as!(
            RemovedRow,
            "DELETE FROM inbox_item i USING unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS old (app_id, user_number, id)
             WHERE (i.app_id, i.user_number, i.id) = (old.app_id, old.user_number, old.id)
             RETURNING i.app_id, i.user_number, i.seen_at, i.clicked_at, i.deleted_at, i.archived_at, i.snoozed_until",
            &app_id,
            &user_number,
            &id
        )
        .fetch_all(&mut *self.transaction)
        .await?;
        for row in &rows {
            self.count(AppId(row.app_id), UserNumber(row.user_number), Counts::default() - row.counts());
        }
        Ok(rows.len() as u64)
    }
}

struct RemovedRow {
    app_id: i64,
    user_number: i64,
    seen_at: Option<DateTime<Utc>>,
    clicked_at: Option<DateTime<Utc>>,
    deleted_at: Option<DateTime<Utc>>,
    archived_at: Option<DateTime<Utc>>,
    snoozed_until: Option<DateTime<Utc>>,
}

impl RemovedRow {
    fn counts(&self) -> Counts {
        let state = ItemState {
            seen_at: self.seen_at.map(Into::into),
            clicked_at: self.clicked_at.map(Into::into),
            deleted_at: self.deleted_at.map(Into::into),
            app_state: None,
            archived_at: self.archived_at.map(Into::into),
            snoozed_until: self.snoozed_until.map(Into::into),
        };
        state.counts()
    }
}
