use chrono::{DateTime, Utc};
use domain::inbox::{AllChange, Counts, ItemState};
use domain::{AppId, ItemId, UserNumber};

use super::{InboxTransaction, ItemKey, StateChange, WholeInbox};
use crate::Error;
use crate::database::columns::columns;
use crate::database::instant::instant;

/// Without a limit, a change to a large inbox would exceed the statement timeout.
const ROWS: i64 = 50_000;

/// Changes at most [`ROWS`] items on a user's list. The first argument is the condition that selects the items. The second is the list of
/// assignments, in which `$4` is the time of the change.
macro_rules! change_all {
    ($meant:literal, $new:literal, $inbox:ident, $connection:expr) => {
        sqlx::query_as!(
            CountsBefore,
            r#"WITH meant AS (
                 SELECT id, clicked_at IS NULL AS unread, seen_at IS NULL AS unseen FROM inbox_item
                 WHERE app_id = $1 AND user_number = $2 AND id <= $3 AND deleted_at IS NULL
                   AND archived_at IS NULL AND snoozed_until IS NULL AND "#
                + $meant
                + r#" LIMIT $5
               ), changed AS (
                 UPDATE inbox_item i SET "#
                + $new
                + r#" FROM meant WHERE i.app_id = $1 AND i.id = meant.id
               )
               SELECT count(*) AS "total!", count(*) FILTER (WHERE unread) AS "unread!",
                 count(*) FILTER (WHERE unseen) AS "unseen!"
               FROM meant"#,
            $inbox.app.0,
            $inbox.user.0,
            $inbox.up_to.0,
            instant($inbox.at),
            ROWS
        )
        .fetch_one($connection)
        .await?
    };
}

/// Number of changed items, and how many were unread and unseen before the change.
struct CountsBefore {
    total: i64,
    unread: i64,
    unseen: i64,
}

/// Deletes at most [`ROWS`] rows: either existing items or items that the user deleted. The two kinds have separate indexes.
macro_rules! erase {
    ($kind:literal, $app:expr, $user:expr) => {
        sqlx::query!(
            "DELETE FROM inbox_item WHERE app_id = $1 AND id IN (
               SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND deleted_at "
                + $kind
                + " LIMIT $3)",
            $app.0,
            $user.0,
            ROWS
        )
    };
}

impl InboxTransaction {
    /// Leaves out items that do not exist.
    pub async fn states(&mut self, keys: &[ItemKey]) -> Result<Vec<(ItemKey, ItemState)>, Error> {
        columns! { (app, user, item) in keys =>
            app_id = app.0,
            user_number = user.0,
            id = item.0,
        }
        let rows = sqlx::query!(
            "SELECT app_id, user_number, id, seen_at, clicked_at, deleted_at, state, archived_at, snoozed_until FROM inbox_item
             JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS named (app_id, user_number, id)
               USING (app_id, user_number, id)",
            &app_id,
            &user_number,
            &id
        )
        .fetch_all(&mut *self.transaction)
        .await?;
        let states = rows.into_iter().map(|row| {
            let state = ItemState {
                seen_at: row.seen_at.map(Into::into),
                clicked_at: row.clicked_at.map(Into::into),
                deleted_at: row.deleted_at.map(Into::into),
                app_state: row.state,
                archived_at: row.archived_at.map(Into::into),
                snoozed_until: row.snoozed_until.map(Into::into),
            };
            ((AppId(row.app_id), UserNumber(row.user_number), ItemId(row.id)), state)
        });
        Ok(states.collect())
    }

    pub async fn change(&mut self, changes: &[StateChange]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        columns! { changed in changes =>
            app_id = changed.key.0.0,
            user_number = changed.key.1.0,
            id = changed.key.2.0,
            seen_at = changed.new.seen_at.map(instant),
            clicked_at = changed.new.clicked_at.map(instant),
            deleted_at = changed.new.deleted_at.map(instant),
            state = changed.new.app_state.as_deref(),
            archived_at = changed.new.archived_at.map(instant),
            snoozed_until = changed.new.snoozed_until.map(instant),
        }
        sqlx::query!(
            "UPDATE inbox_item i SET seen_at = new.seen_at, clicked_at = new.clicked_at, deleted_at = new.deleted_at,
               state = new.state, archived_at = new.archived_at, snoozed_until = new.snoozed_until,
               content = CASE WHEN new.deleted_at IS NULL THEN i.content END
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
               $7::text[], $8::timestamptz[], $9::timestamptz[])
               AS new (app_id, user_number, id, seen_at, clicked_at, deleted_at, state, archived_at, snoozed_until)
             WHERE (i.app_id, i.user_number, i.id) = (new.app_id, new.user_number, new.id)",
            &app_id,
            &user_number,
            &id,
            &seen_at as &[Option<DateTime<Utc>>],
            &clicked_at as &[Option<DateTime<Utc>>],
            &deleted_at as &[Option<DateTime<Utc>>],
            &state as &[Option<&str>],
            &archived_at as &[Option<DateTime<Utc>>],
            &snoozed_until as &[Option<DateTime<Utc>>]
        )
        .execute(&mut *self.transaction)
        .await?;
        for StateChange { key: (app, user, _), old, new } in changes {
            self.count(*app, *user, new.counts() - old.counts());
        }
        Ok(())
    }

    /// Applies a change to all items on a user's list whose ids are at most `up_to`.
    pub async fn change_all(&mut self, inbox: WholeInbox) -> Result<(), Error> {
        loop {
            let connection = &mut *self.transaction;
            let CountsBefore { total, unread, unseen } = match inbox.change {
                AllChange::Seen => change_all!("seen_at IS NULL", "seen_at = $4", inbox, connection),
                AllChange::Read => change_all!(
                    "clicked_at IS NULL",
                    "clicked_at = $4, seen_at = coalesce(i.seen_at, $4)",
                    inbox,
                    connection
                ),
                AllChange::Deleted => {
                    change_all!("true", "deleted_at = $4, content = NULL, state = NULL", inbox, connection)
                }
            };
            let changed = Counts { total, unread, unseen, hidden: 0 };
            self.count(inbox.app, inbox.user, inbox.change.difference(changed));
            if total < ROWS {
                return Ok(());
            }
        }
    }

    /// Deletes all rows of a user. The caller must not add items of the user to this batch afterwards.
    pub async fn erase(&mut self, app: AppId, user: UserNumber) -> Result<(), Error> {
        for is_deleted in [false, true] {
            loop {
                let statement =
                    if is_deleted { erase!("IS NOT NULL", app, user) } else { erase!("IS NULL", app, user) };
                let erased = statement.execute(&mut *self.transaction).await?;
                if erased.rows_affected() < ROWS.cast_unsigned() {
                    break;
                }
            }
        }
        sqlx::query!("DELETE FROM inbox_counter WHERE app_id = $1 AND user_number = $2", app.0, user.0)
            .execute(&mut *self.transaction)
            .await?;
        self.counts.remove(&(app, user));
        Ok(())
    }
}
