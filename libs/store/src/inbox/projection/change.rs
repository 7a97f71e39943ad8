//! Changes to existing inbox items within a batch.

use chrono::{DateTime, Utc};
use domain::inbox::{AllChange, Counts, ItemState};
use domain::{AppId, ItemId, Timestamp, UserNumber};
use sqlx::Row;

use super::{Batch, Changed, ItemKey, WholeInbox};
use crate::Error;
use crate::database::instant::instant;

/// Maximum number of rows that one statement changes, so that a change to a whole inbox of any size does not exceed the
/// statement timeout.
const ROWS: i64 = 50_000;

/// Statement that changes at most `$5` of the affected items of a user. Returns the number of these items, and how many of
/// them were unread and unseen before.
macro_rules! change_all {
    ($meant:literal, $new:literal) => {
        concat!(
            "WITH meant AS (
                 SELECT id, clicked_at IS NULL AS unread, seen_at IS NULL AS unseen FROM inbox_item
                 WHERE app_id = $1 AND user_number = $2 AND id <= $3 AND deleted_at IS NULL AND ",
            $meant,
            "     LIMIT $5),
             changed AS (
                 UPDATE inbox_item i SET ",
            $new,
            "    FROM meant WHERE i.app_id = $1 AND i.id = meant.id)
             SELECT count(*), count(*) FILTER (WHERE unread), count(*) FILTER (WHERE unseen) FROM meant"
        )
    };
}

fn change_all(change: AllChange) -> &'static str {
    match change {
        AllChange::Seen => change_all!("seen_at IS NULL", "seen_at = $4"),
        AllChange::Read => {
            change_all!("clicked_at IS NULL", "clicked_at = $4, seen_at = coalesce(i.seen_at, $4)")
        }
        AllChange::Deleted => change_all!("true", "deleted_at = $4, content = NULL, state = NULL"),
    }
}

/// Statement that deletes at most `$3` item rows of a user, either live or deleted ones, which have separate indexes.
macro_rules! erase {
    ($kind:literal) => {
        concat!(
            "DELETE FROM inbox_item WHERE app_id = $1 AND id IN (
                 SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND deleted_at ",
            $kind,
            " LIMIT $3)"
        )
    };
}

impl Batch {
    /// Returns the current states of the items; missing items are left out.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn states(&mut self, keys: &[ItemKey]) -> Result<Vec<(ItemKey, ItemState)>, Error> {
        let rows = sqlx::query(
            "SELECT app_id, user_number, id, seen_at, clicked_at, deleted_at, state FROM inbox_item
             JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (app_id, user_number, id)
               USING (app_id, user_number, id)",
        )
        .bind(keys.iter().map(|(app, ..)| app.0).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, user, _)| user.0).collect::<Vec<_>>())
        .bind(keys.iter().map(|(.., id)| id.0).collect::<Vec<_>>())
        .fetch_all(&mut *self.transaction)
        .await?;
        rows.into_iter()
            .map(|row| {
                let key = (AppId(row.try_get(0)?), UserNumber(row.try_get(1)?), ItemId(row.try_get(2)?));
                let time = |column| -> Result<Option<Timestamp>, Error> {
                    Ok(row.try_get::<Option<DateTime<Utc>>, _>(column)?.map(Timestamp::from))
                };
                let state = ItemState {
                    seen_at: time("seen_at")?,
                    clicked_at: time("clicked_at")?,
                    deleted_at: time("deleted_at")?,
                    app_state: row.try_get("state")?,
                };
                Ok((key, state))
            })
            .collect()
    }

    /// Writes new states of existing items.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn change(&mut self, changes: &[Changed]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "UPDATE inbox_item i SET seen_at = new.seen_at, clicked_at = new.clicked_at, deleted_at = new.deleted_at,
               state = new.state, content = CASE WHEN new.deleted_at IS NULL THEN i.content END
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
               $7::text[]) AS new (app_id, user_number, id, seen_at, clicked_at, deleted_at, state)
             WHERE (i.app_id, i.user_number, i.id) = (new.app_id, new.user_number, new.id)",
        )
        .bind(changes.iter().map(|changed| changed.key.0.0).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.key.1.0).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.key.2.0).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.new.seen_at.map(instant)).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.new.clicked_at.map(instant)).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.new.deleted_at.map(instant)).collect::<Vec<_>>())
        .bind(changes.iter().map(|changed| changed.new.app_state.as_deref()).collect::<Vec<_>>())
        .execute(&mut *self.transaction)
        .await?;
        for Changed { key: (app, user, _), old, new } in changes {
            self.count(*app, *user, new.counts() - old.counts());
        }
        Ok(())
    }

    /// Applies a change to all items of a user up to a given id.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn change_all(&mut self, inbox: WholeInbox) -> Result<(), Error> {
        loop {
            let (total, unread, unseen): (i64, i64, i64) = sqlx::query_as(change_all(inbox.change))
                .bind(inbox.app.0)
                .bind(inbox.user.0)
                .bind(inbox.up_to.0)
                .bind(instant(inbox.at))
                .bind(ROWS)
                .fetch_one(&mut *self.transaction)
                .await?;
            self.count(inbox.app, inbox.user, inbox.change.difference(Counts { total, unread, unseen }));
            if total < ROWS {
                return Ok(());
            }
        }
    }

    /// Deletes all rows of a user: items, rows of deleted items, and counters. The caller must not add items of the user
    /// afterwards.
    ///
    /// # Errors
    /// The database failed; the batch must be dropped.
    pub async fn erase(&mut self, app: AppId, user: UserNumber) -> Result<(), Error> {
        for statement in [erase!("IS NULL"), erase!("IS NOT NULL")] {
            loop {
                let erased = sqlx::query(statement)
                    .bind(app.0)
                    .bind(user.0)
                    .bind(ROWS)
                    .execute(&mut *self.transaction)
                    .await?;
                if erased.rows_affected() < ROWS.cast_unsigned() {
                    break;
                }
            }
        }
        sqlx::query("DELETE FROM inbox_counter WHERE app_id = $1 AND user_number = $2")
            .bind(app.0)
            .bind(user.0)
            .execute(&mut *self.transaction)
            .await?;
        self.counts.remove(&(app, user));
        Ok(())
    }
}
