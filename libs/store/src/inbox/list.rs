//! Queries that read inboxes. Only the projection and the retention write inboxes.

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, CategoryId, ItemId, SendId, StreamName, Timestamp, UserNumber};
use uuid::Uuid;

use crate::inbox::projection::INBOX;
use crate::{Error, Inbox};

/// Keeps the cost of a count independent of the size of the inbox.
pub const MAX_COUNTED: i64 = 10_000;

const NEWEST: (Timestamp, ItemId) = (Timestamp::from_millis(253_402_300_799_000), ItemId(i64::MAX));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOwner {
    pub user: UserNumber,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxMoment {
    pub counts: Counts,
    /// Sequence number of the last event that the counters include.
    pub position: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    pub id: ItemId,
    pub user: UserNumber,
    pub send: SendId,
    pub created_at: Timestamp,
    pub state: ItemState,
    /// None if the item has no category or the category was deleted.
    pub category: Option<ItemCategory>,
    /// JSON text, in the format of `domain::content::InAppContent`.
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemCategory {
    pub id: CategoryId,
    pub identifier: String,
    pub name: String,
}

/// A property that is `None` matches all items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFilter<'a> {
    pub category: Option<&'a str>,
    pub read: Option<bool>,
    pub seen: Option<bool>,
    /// True for items for which the app has set a state.
    pub has_state: Option<bool>,
    pub place: Place,
}

/// An item that is not deleted is in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The list of the inbox, which the counters cover.
    #[default]
    List,
    Archive,
    Snoozed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxPage {
    pub counts: Counts,
    pub items: Vec<InboxItem>,
}

/// Pages list the newest items first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// Number of items to skip.
    Offset(i64),
    /// Creation time and id of the last item of the previous page. Items that are added between two calls do not shift the pages.
    After(Timestamp, ItemId),
}

impl Inbox<'_> {
    pub async fn inbox_owner(self, app: AppId, identifier: &str) -> Result<Option<InboxOwner>, Error> {
        let row = sqlx::query!(
            r#"SELECT u.number, coalesce(c.total, 0) AS "total!", coalesce(c.unread, 0) AS "unread!",
                 coalesce(c.unseen, 0) AS "unseen!", coalesce(c.hidden, 0) AS "hidden!"
               FROM app_user u LEFT JOIN LATERAL (
                 SELECT total, unread, unseen, hidden FROM inbox_counter
                 WHERE app_id = u.app_id AND app_id BETWEEN u.app_id AND u.app_id AND user_number BETWEEN u.number AND u.number
                 ORDER BY user_number DESC LIMIT 1
               ) AS c ON true
               WHERE u.app_id = $1 AND u.identifier = $2"#,
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| InboxOwner {
            user: UserNumber(row.number),
            counts: Counts { total: row.total, unread: row.unread, unseen: row.unseen, hidden: row.hidden },
        }))
    }

    /// Counters and position are 0 if the projection has committed no event of this stream.
    pub async fn inbox_moment(
        self,
        app: AppId,
        user: UserNumber,
        stream: StreamName,
    ) -> Result<InboxMoment, Error> {
        let row = sqlx::query!(
            r#"SELECT p.seq, c.total AS "total?", c.unread AS "unread?", c.unseen AS "unseen?", c.hidden AS "hidden?"
               FROM (
                 SELECT seq FROM checkpoint WHERE projection = $3 AND projection BETWEEN (SELECT $3) AND (SELECT $3)
                   AND stream BETWEEN (SELECT $4) AND (SELECT $4)
                 ORDER BY stream DESC LIMIT 1
               ) AS p LEFT JOIN (
                 SELECT total, unread, unseen, hidden FROM inbox_counter
                 WHERE app_id = $1 AND app_id BETWEEN (SELECT $1::bigint) AND (SELECT $1::bigint)
                   AND user_number BETWEEN (SELECT $2::bigint) AND (SELECT $2::bigint)
                 ORDER BY user_number DESC LIMIT 1
               ) AS c ON true"#,
            app.0,
            user.0,
            INBOX,
            stream.to_string()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map_or_else(InboxMoment::default, |row| InboxMoment {
            counts: counts(row.total, row.unread, row.unseen, row.hidden),
            position: row.seq.cast_unsigned(),
        }))
    }

    /// One statement reads items and counters, so they are consistent. For items before the page, it reads only the index, not the rows.
    pub async fn list_inbox(
        self,
        app: AppId,
        user: UserNumber,
        filter: InboxFilter<'_>,
        start: PageStart,
        limit: i64,
    ) -> Result<InboxPage, Error> {
        let (offset, (before, before_id)) = match start {
            PageStart::Offset(offset) => (offset, NEWEST),
            PageStart::After(created_at, id) => (0, (created_at, id)),
        };
        let rows = sqlx::query_file!(
            "src/inbox/list/page.sql",
            app.0,
            user.0,
            filter.category,
            filter.read,
            filter.seen,
            filter.has_state,
            filter.place == Place::Archive,
            filter.place == Place::Snoozed,
            DateTime::<Utc>::from(before),
            before_id.0,
            offset,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut page = InboxPage::default();
        for row in rows {
            page.counts = counts(row.total, row.unread, row.unseen, row.hidden);
            if let (Some(id), Some(user_number), Some(send_id), Some(created_at), Some(content)) =
                (row.id, row.user_number, row.send_id, row.created_at, row.content)
            {
                let item = ItemRow {
                    id,
                    user_number,
                    send_id,
                    created_at,
                    seen_at: row.seen_at,
                    clicked_at: row.clicked_at,
                    state: row.state,
                    archived_at: row.archived_at,
                    snoozed_until: row.snoozed_until,
                    content,
                    category_id: row.category_id,
                    category_identifier: row.category_identifier,
                    category_name: row.category_name,
                };
                page.items.push(item.into());
            }
        }
        Ok(page)
    }

    /// Counts up to [`MAX_COUNTED`].
    pub async fn count_inbox(
        self,
        app: AppId,
        user: UserNumber,
        filter: InboxFilter<'_>,
    ) -> Result<i64, Error> {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM (
                 SELECT FROM inbox_item i
                 WHERE i.app_id = $1 AND i.user_number = $2 AND i.deleted_at IS NULL
                   AND ($3::text IS NULL OR i.category_id = (SELECT id FROM category WHERE app_id = $1 AND identifier = $3))
                   AND ($4::boolean IS NULL OR (i.clicked_at IS NOT NULL) = $4)
                   AND ($5::boolean IS NULL OR (i.seen_at IS NOT NULL) = $5)
                   AND ($6::boolean IS NULL OR (i.state IS NOT NULL) = $6)
                   AND (i.archived_at IS NOT NULL) = $7 AND (i.snoozed_until IS NOT NULL) = $8
                 LIMIT $9
               ) AS counted"#,
            app.0,
            user.0,
            filter.category,
            filter.read,
            filter.seen,
            filter.has_state,
            filter.place == Place::Archive,
            filter.place == Place::Snoozed,
            MAX_COUNTED
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(count)
    }

    /// None if the item does not exist or is deleted, if its user no longer exists, or if `identifier` names another user.
    pub async fn find_item(
        self,
        app: AppId,
        identifier: Option<&str>,
        id: ItemId,
    ) -> Result<Option<InboxItem>, Error> {
        // `OFFSET 0` makes the planner use the primary key instead of the index on items that are not deleted.
        let row = sqlx::query_as!(
            ItemRow,
            r#"SELECT i.id, i.user_number, i.send_id, i.created_at, i.seen_at, i.clicked_at, i.state, i.archived_at, i.snoozed_until,
                 i.content::text AS "content!", c.id AS "category_id?", c.identifier AS "category_identifier?", c.name AS "category_name?"
               FROM (SELECT * FROM inbox_item WHERE app_id = $1 AND id = $2 OFFSET 0) AS i
               LEFT JOIN category c ON c.app_id = i.app_id AND c.id = i.category_id
               WHERE i.deleted_at IS NULL AND EXISTS (
                 SELECT FROM app_user u WHERE u.app_id = $1 AND u.number = i.user_number
                   AND ($3::text IS NULL OR u.identifier = $3)
               )"#,
            app.0,
            id.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(InboxItem::from))
    }

    /// None if the item does not exist or was read or deleted.
    pub async fn unread_item_of(
        self,
        app: AppId,
        user: UserNumber,
        send: SendId,
    ) -> Result<Option<ItemId>, Error> {
        let id = sqlx::query_scalar!(
            "SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND send_id = $3
               AND deleted_at IS NULL AND clicked_at IS NULL",
            app.0,
            user.0,
            send.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(id.map(ItemId))
    }

    /// Last sequence number that the inbox projection has committed, by stream.
    pub async fn positions(self) -> Result<Vec<(String, u64)>, Error> {
        let rows = sqlx::query!(
            r#"WITH RECURSIVE place AS (
                 (SELECT stream, seq FROM checkpoint WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
                   AND stream BETWEEN (SELECT '') AND (SELECT 'z')
                  ORDER BY stream DESC LIMIT 1)
                 UNION ALL
                 SELECT next.stream, next.seq FROM place CROSS JOIN LATERAL (
                   SELECT stream, seq FROM checkpoint WHERE projection = $1 AND projection BETWEEN (SELECT $1) AND (SELECT $1)
                     AND stream > (SELECT '') AND stream < place.stream
                   ORDER BY stream DESC LIMIT 1
                 ) AS next
               )
               SELECT stream AS "stream!", seq AS "seq!" FROM place"#,
            INBOX
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (row.stream, row.seq.cast_unsigned())).collect())
    }
}

/// A user without a row of counters has no items.
pub(super) fn counts(
    total: Option<i64>,
    unread: Option<i64>,
    unseen: Option<i64>,
    hidden: Option<i64>,
) -> Counts {
    Counts {
        total: total.unwrap_or_default(),
        unread: unread.unwrap_or_default(),
        unseen: unseen.unwrap_or_default(),
        hidden: hidden.unwrap_or_default(),
    }
}

struct ItemRow {
    id: i64,
    user_number: i64,
    send_id: Uuid,
    created_at: DateTime<Utc>,
    seen_at: Option<DateTime<Utc>>,
    clicked_at: Option<DateTime<Utc>>,
    state: Option<String>,
    archived_at: Option<DateTime<Utc>>,
    snoozed_until: Option<DateTime<Utc>>,
    content: String,
    category_id: Option<i64>,
    category_identifier: Option<String>,
    category_name: Option<String>,
}

impl From<ItemRow> for InboxItem {
    fn from(row: ItemRow) -> InboxItem {
        let category = row.category_id.map(|id| ItemCategory {
            id: CategoryId(id),
            identifier: row.category_identifier.unwrap_or_default(),
            name: row.category_name.unwrap_or_default(),
        });
        InboxItem {
            id: ItemId(row.id),
            user: UserNumber(row.user_number),
            send: SendId(row.send_id),
            created_at: row.created_at.into(),
            state: ItemState {
                seen_at: row.seen_at.map(Into::into),
                clicked_at: row.clicked_at.map(Into::into),
                deleted_at: None,
                app_state: row.state,
                archived_at: row.archived_at.map(Into::into),
                snoozed_until: row.snoozed_until.map(Into::into),
            },
            category,
            content: row.content,
        }
    }
}
