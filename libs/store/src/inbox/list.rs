//! Reading the inbox. Only the projection writes its rows.

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, CategoryId, ItemId, SendId, StreamName, Timestamp, UserNumber};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::inbox::projection::INBOX;
use crate::{Error, Inbox};

/// Largest count that is returned, so that the cost of a count does not grow with the inbox.
pub const MAX_COUNTED: i64 = 10_000;

/// Position before the newest item, at which the first page starts.
const NEWEST: (Timestamp, ItemId) = (Timestamp::from_millis(253_402_300_799_000), ItemId(i64::MAX));

/// SQL for the columns of an item and its category.
macro_rules! item {
    () => {
        "i.id, i.user_number, i.created_at, i.seen_at, i.clicked_at, i.state, i.content::text AS content,
         c.id AS category_id, c.identifier AS category_identifier, c.name AS category_name"
    };
}

/// The category of an item.
macro_rules! join_category {
    () => {
        " LEFT JOIN category c ON c.app_id = i.app_id AND c.id = i.category_id "
    };
}

/// SQL conditions of every list and count of a user's items; uses the parameters 1 to 6. The index `inbox_item_list`
/// contains all these columns.
macro_rules! matching {
    () => {
        "i.app_id = $1 AND i.user_number = $2 AND i.deleted_at IS NULL
         AND ($3::text IS NULL OR i.category_id = (SELECT id FROM category WHERE app_id = $1 AND identifier = $3))
         AND ($4::boolean IS NULL OR (i.clicked_at IS NOT NULL) = $4)
         AND ($5::boolean IS NULL OR (i.seen_at IS NOT NULL) = $5)
         AND ($6::boolean IS NULL OR (i.state IS NOT NULL) = $6)"
    };
}

/// A user and the counters of the user's inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOwner {
    pub user: UserNumber,
    /// Counters of the whole inbox.
    pub counts: Counts,
}

/// The counters of an inbox and the stream position to which they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxMoment {
    /// Counters of the whole inbox.
    pub counts: Counts,
    /// Sequence number of the last event included in the counters.
    pub position: u64,
}

/// An item of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    pub id: ItemId,
    /// Owner of the inbox.
    pub user: UserNumber,
    pub created_at: Timestamp,
    /// Times at which the item was seen and read, and the state that the app set.
    pub state: ItemState,
    /// The category; None if the item has no category or the category was deleted.
    pub category: Option<ItemCategory>,
    /// `domain::content::InAppContent` as JSON text.
    pub content: String,
}

/// The category of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemCategory {
    /// Number of the category in Tidings.
    pub id: CategoryId,
    /// The app's identifier of the category.
    pub identifier: String,
    /// Display name.
    pub name: String,
}

/// Selection of items of an inbox. A property that is `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFilter<'a> {
    /// Identifier of the category.
    pub category: Option<&'a str>,
    /// True for read items, false for unread items.
    pub read: Option<bool>,
    /// True for seen items, false for unseen items.
    pub seen: Option<bool>,
    /// True for items with an app state, false for items without.
    pub has_state: Option<bool>,
}

/// A page of an inbox, with the counters at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxPage {
    /// Counters of the whole inbox.
    pub counts: Counts,
    /// The items, newest first.
    pub items: Vec<InboxItem>,
}

/// Start of a page of an inbox, whose items are listed newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// Skips this number of items.
    Offset(i64),
    /// Starts after this item, given by creation time and id. New items do not shift such a page.
    After(Timestamp, ItemId),
}

impl Inbox<'_> {
    /// Returns the user with this identifier and the counters of the inbox; None for an unknown user.
    pub async fn inbox_owner(self, app: AppId, identifier: &str) -> Result<Option<InboxOwner>, Error> {
        let row: Option<(i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT u.number, coalesce(c.total, 0), coalesce(c.unread, 0), coalesce(c.unseen, 0)
             FROM app_user u LEFT JOIN inbox_counter c ON c.app_id = u.app_id AND c.user_number = u.number
             WHERE u.app_id = $1 AND u.identifier = $2",
        )
        .bind(app.0)
        .bind(identifier)
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|(user, total, unread, unseen)| InboxOwner {
            user: UserNumber(user),
            counts: Counts { total, unread, unseen },
        }))
    }

    /// Returns the counters of a user's inbox and the sequence number of the last event of `stream` that they include. All
    /// are 0 if the projection has committed nothing for this stream.
    pub async fn inbox_moment(
        self,
        app: AppId,
        user: UserNumber,
        stream: StreamName,
    ) -> Result<InboxMoment, Error> {
        let row = sqlx::query(
            "SELECT p.seq, c.total, c.unread, c.unseen FROM checkpoint p
             LEFT JOIN inbox_counter c ON c.app_id = $1 AND c.user_number = $2
             WHERE p.projection = $3 AND p.stream = $4",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(INBOX)
        .bind(stream.to_string())
        .fetch_optional(&self.0.pool)
        .await?;
        match row {
            None => Ok(InboxMoment::default()),
            Some(row) => {
                let position: i64 = row.try_get("seq")?;
                Ok(InboxMoment { counts: read_counts(&row)?, position: position.cast_unsigned() })
            }
        }
    }

    /// Lists at most `limit` items of a user's inbox, newest first. One statement reads items and counters, so that they
    /// are consistent. Items before the page are skipped in the index, without reading their rows.
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
        let rows = sqlx::query(concat!(
            "WITH place AS MATERIALIZED (SELECT i.id FROM inbox_item i WHERE ",
            matching!(),
            " AND (i.created_at, i.id) < ($7, $8) ORDER BY i.created_at DESC, i.id DESC OFFSET $9 LIMIT $10)
             SELECT counter.total, counter.unread, counter.unseen, item.*
             FROM (VALUES (1)) AS one LEFT JOIN inbox_counter counter ON counter.app_id = $1 AND counter.user_number = $2
             LEFT JOIN LATERAL (SELECT ",
            item!(),
            " FROM place JOIN inbox_item i ON i.app_id = $1 AND i.id = place.id",
            join_category!(),
            ") AS item ON true ORDER BY item.created_at DESC, item.id DESC"
        ))
        .bind(app.0)
        .bind(user.0)
        .bind(filter.category)
        .bind(filter.read)
        .bind(filter.seen)
        .bind(filter.has_state)
        .bind(DateTime::<Utc>::from(before))
        .bind(before_id.0)
        .bind(offset)
        .bind(limit)
        .fetch_all(&self.0.pool)
        .await?;
        let mut page = InboxPage::default();
        for row in &rows {
            page.counts = read_counts(row)?;
            // If the page has no items, the statement returns one row with only the counters.
            if row.try_get::<Option<i64>, _>("id")?.is_some() {
                page.items.push(read_item(row)?);
            }
        }
        Ok(page)
    }

    /// Counts the matching items of a user's inbox; returns at most [`MAX_COUNTED`].
    pub async fn count_inbox(
        self,
        app: AppId,
        user: UserNumber,
        filter: InboxFilter<'_>,
    ) -> Result<i64, Error> {
        let count = sqlx::query_scalar(concat!(
            "SELECT count(*) FROM (SELECT FROM inbox_item i WHERE ",
            matching!(),
            " LIMIT $7) AS counted"
        ))
        .bind(app.0)
        .bind(user.0)
        .bind(filter.category)
        .bind(filter.read)
        .bind(filter.seen)
        .bind(filter.has_state)
        .bind(MAX_COUNTED)
        .fetch_one(&self.0.pool)
        .await?;
        Ok(count)
    }

    /// Finds an item by id; None if it does not exist, is deleted, or its user no longer exists. With `identifier`, also
    /// None if the item is not in this user's inbox.
    pub async fn find_item(
        self,
        app: AppId,
        identifier: Option<&str>,
        id: ItemId,
    ) -> Result<Option<InboxItem>, Error> {
        let row = sqlx::query(concat!(
            "SELECT ",
            item!(),
            // OFFSET 0 makes the planner use the primary key instead of the index of items that are not deleted.
            " FROM (SELECT * FROM inbox_item WHERE app_id = $1 AND id = $2 OFFSET 0) AS i",
            join_category!(),
            "WHERE i.deleted_at IS NULL AND EXISTS (
                 SELECT FROM app_user u WHERE u.app_id = $1 AND u.number = i.user_number
                   AND ($3::text IS NULL OR u.identifier = $3)
               )"
        ))
        .bind(app.0)
        .bind(id.0)
        .bind(identifier)
        .fetch_optional(&self.0.pool)
        .await?;
        row.as_ref().map(read_item).transpose()
    }

    /// Finds the item that a send added to the user's inbox; None if the item is missing, read or deleted.
    pub async fn unread_item_of(
        self,
        app: AppId,
        user: UserNumber,
        send: SendId,
    ) -> Result<Option<ItemId>, Error> {
        let id = sqlx::query_scalar(
            "SELECT id FROM inbox_item WHERE app_id = $1 AND user_number = $2 AND send_id = $3
               AND deleted_at IS NULL AND clicked_at IS NULL",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(send.0)
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(id.map(ItemId))
    }

    /// Returns the name of each inbox stream and the last sequence number that the projection has committed.
    pub async fn inbox_positions(self) -> Result<Vec<(String, u64)>, Error> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT stream, seq FROM checkpoint WHERE projection = $1")
                .bind(INBOX)
                .fetch_all(&self.0.pool)
                .await?;
        Ok(rows.into_iter().map(|(stream, seq)| (stream, seq.cast_unsigned())).collect())
    }
}

fn read_counts(row: &PgRow) -> Result<Counts, Error> {
    let count = |column| -> Result<i64, Error> { Ok(row.try_get::<Option<i64>, _>(column)?.unwrap_or(0)) };
    Ok(Counts { total: count("total")?, unread: count("unread")?, unseen: count("unseen")? })
}

fn read_item(row: &PgRow) -> Result<InboxItem, Error> {
    let time = |column| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(row.try_get::<Option<DateTime<Utc>>, _>(column)?.map(Into::into))
    };
    let category = match row.try_get::<Option<i64>, _>("category_id")? {
        None => None,
        Some(id) => Some(ItemCategory {
            id: CategoryId(id),
            identifier: row.try_get("category_identifier")?,
            name: row.try_get("category_name")?,
        }),
    };
    Ok(InboxItem {
        id: ItemId(row.try_get("id")?),
        user: UserNumber(row.try_get("user_number")?),
        created_at: row.try_get::<DateTime<Utc>, _>("created_at")?.into(),
        state: ItemState {
            seen_at: time("seen_at")?,
            clicked_at: time("clicked_at")?,
            deleted_at: None,
            app_state: row.try_get("state")?,
        },
        category,
        content: row.try_get("content")?,
    })
}
