//! Current items and counters, for gateways that report changes to connected clients.

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, CategoryId, ItemId, SendId, UserNumber};

use crate::database::columns::columns;
use crate::inbox::list::{InboxItem, ItemCategory, counts};
use crate::inbox::projection::ItemKey;
use crate::{Error, Inbox};

/// Id that no item has. A key with this id asks only for the counters of the user.
pub const NO_ITEM: ItemId = ItemId(0);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentItem {
    pub key: ItemKey,
    pub counts: Counts,
    /// None if the inbox has no row of the item.
    pub send: Option<SendId>,
    /// None if the item does not exist or is deleted.
    pub item: Option<InboxItem>,
}

impl Inbox<'_> {
    /// Identity of the table of items. A rebuild or a restore replaces the table by one with another identity.
    pub async fn table(self) -> Result<u32, Error> {
        let oid = sqlx::query_scalar!(r#"SELECT 'inbox_item'::regclass::oid AS "oid!""#);
        Ok(oid.fetch_one(&self.0.pool).await?.0)
    }

    /// Returns states in the order of the keys. One statement reads all items and counters, so they are consistent.
    pub async fn current_items(self, keys: &[ItemKey]) -> Result<Vec<CurrentItem>, Error> {
        columns! { (app, user, item) in keys =>
            app_id = app.0,
            user_number = user.0,
            id = item.0,
        }
        let rows = sqlx::query_as!(
            CurrentRow,
            r#"SELECT k.app_id AS "app_id!", k.user_number AS "user_number!", k.id AS "id!",
                 counter.total AS "total?", counter.unread AS "unread?", counter.unseen AS "unseen?",
                 counter.hidden AS "hidden?", i.send_id AS "send_id?", i.created_at AS "created_at?", i.seen_at AS "seen_at?",
                 i.clicked_at AS "clicked_at?", i.state AS "state?", i.archived_at AS "archived_at?",
                 i.snoozed_until AS "snoozed_until?", i.content AS "content?",
                 c.id AS "category_id?", c.identifier AS "category_identifier?", c.name AS "category_name?"
               FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS k (app_id, user_number, id, place)
               LEFT JOIN LATERAL (
                 SELECT total, unread, unseen, hidden FROM inbox_counter
                 WHERE app_id = k.app_id AND app_id BETWEEN k.app_id AND k.app_id AND user_number BETWEEN k.user_number AND k.user_number
                 ORDER BY user_number DESC LIMIT 1
               ) AS counter ON true
               LEFT JOIN LATERAL (
                 SELECT item.user_number, item.send_id, item.created_at, item.seen_at, item.clicked_at, item.state,
                   item.archived_at, item.snoozed_until, item.category_id,
                   CASE WHEN item.deleted_at IS NULL THEN item.content::text END AS content
                 FROM inbox_item item WHERE item.app_id = k.app_id AND item.id = k.id OFFSET 0
               ) AS i ON i.user_number = k.user_number
               LEFT JOIN category c ON c.app_id = k.app_id AND c.id = i.category_id
               ORDER BY k.place"#,
            &app_id,
            &user_number,
            &id
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(CurrentItem::from).collect())
    }

    /// Leaves out unknown users.
    pub async fn inbox_owners(
        self,
        users: &[(AppId, String)],
    ) -> Result<Vec<(AppId, String, UserNumber)>, Error> {
        columns! { (app, name) in users =>
            app_id = app.0,
            identifier = name.as_str(),
        }
        let rows = sqlx::query!(
            "SELECT u.app_id, u.identifier, u.number FROM unnest($1::bigint[], $2::text[]) AS k (app_id, identifier)
             JOIN app_user u ON u.app_id = k.app_id AND u.identifier = k.identifier",
            &app_id,
            &identifier as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (AppId(row.app_id), row.identifier, UserNumber(row.number))).collect())
    }
}

struct CurrentRow {
    app_id: i64,
    user_number: i64,
    id: i64,
    total: Option<i64>,
    unread: Option<i64>,
    unseen: Option<i64>,
    hidden: Option<i64>,
    send_id: Option<uuid::Uuid>,
    created_at: Option<DateTime<Utc>>,
    seen_at: Option<DateTime<Utc>>,
    clicked_at: Option<DateTime<Utc>>,
    state: Option<String>,
    archived_at: Option<DateTime<Utc>>,
    snoozed_until: Option<DateTime<Utc>>,
    content: Option<String>,
    category_id: Option<i64>,
    category_identifier: Option<String>,
    category_name: Option<String>,
}

impl From<CurrentRow> for CurrentItem {
    fn from(row: CurrentRow) -> CurrentItem {
        let (id, user) = (ItemId(row.id), UserNumber(row.user_number));
        let send = row.send_id.map(SendId);
        let item = row.content.zip(row.created_at).zip(send).map(|((content, created_at), send)| InboxItem {
            id,
            user,
            send,
            created_at: created_at.into(),
            state: ItemState {
                seen_at: row.seen_at.map(Into::into),
                clicked_at: row.clicked_at.map(Into::into),
                deleted_at: None,
                app_state: row.state,
                archived_at: row.archived_at.map(Into::into),
                snoozed_until: row.snoozed_until.map(Into::into),
            },
            category: row.category_id.map(|id| ItemCategory {
                id: CategoryId(id),
                identifier: row.category_identifier.unwrap_or_default(),
                name: row.category_name.unwrap_or_default(),
            }),
            content,
        });
        CurrentItem {
            key: (AppId(row.app_id), user, id),
            counts: counts(row.total, row.unread, row.unseen, row.hidden),
            send,
            item,
        }
    }
}
