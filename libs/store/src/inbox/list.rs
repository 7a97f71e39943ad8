//! Queries that read inboxes. Only the projection and the retention write inboxes.

use chrono::{DateTime, Utc};
use domain::inbox::{Counts, ItemState};
use domain::{AppId, CategoryId, ItemId, SendId, StreamName, Timestamp, UserNumber};

use crate::inbox::projection::INBOX;
use crate::{Error, Inbox};

/// Largest count that [`Inbox::count_inbox`] returns. The limit keeps the cost of a count independent of the size of the
/// inbox.
pub const MAX_COUNTED: i64 = 10_000;

/// Position before the newest item, where the first page starts.
const NEWEST: (Timestamp, ItemId) = (Timestamp::from_millis(253_402_300_799_000), ItemId(i64::MAX));

/// A user and the counters of the user's inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxOwner {
    pub user: UserNumber,
    /// Counters of the list.
    pub counts: Counts,
}

/// The counters of an inbox, and the stream position of the last event that they include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxMoment {
    /// Counters of the list.
    pub counts: Counts,
    /// Sequence number of the last event that the counters include.
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
    /// Content as JSON text, in the format of `domain::content::InAppContent`.
    pub content: String,
}

/// The category of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemCategory {
    /// Number of the category, assigned by Tidings.
    pub id: CategoryId,
    /// The app's identifier of the category.
    pub identifier: String,
    /// Display name.
    pub name: String,
}

/// A filter for the items of an inbox. A property that is `None` matches all items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxFilter<'a> {
    /// Identifier of the category.
    pub category: Option<&'a str>,
    /// True for read items, false for unread items.
    pub read: Option<bool>,
    /// True for seen items, false for unseen items.
    pub seen: Option<bool>,
    /// True for items for which the app has set a state, false for items without a state.
    pub has_state: Option<bool>,
    /// Place of the items.
    pub place: Place,
}

/// Place of an item that is not deleted. An item is in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The list of the inbox, which the counters cover.
    #[default]
    List,
    /// The archive.
    Archive,
    /// The snoozed items, which return to the list.
    Snoozed,
}

/// A page of an inbox, and the counters that were read in the same statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxPage {
    /// Counters of the list.
    pub counts: Counts,
    /// The items, newest first.
    pub items: Vec<InboxItem>,
}

/// Start of a page of an inbox. Pages list the newest items first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// Skips this number of items.
    Offset(i64),
    /// Starts after the item with this creation time and id. Items that are added between two calls do not shift the pages.
    After(Timestamp, ItemId),
}

impl Inbox<'_> {
    /// Returns the user with this identifier and the counters of the user's inbox. Returns None for an unknown user.
    pub async fn inbox_owner(self, app: AppId, identifier: &str) -> Result<Option<InboxOwner>, Error> {
        let row = sqlx::query!(
            r#"SELECT u.number, coalesce(c.total, 0) AS "total!", coalesce(c.unread, 0) AS "unread!",
                 coalesce(c.unseen, 0) AS "unseen!", coalesce(c.hidden, 0) AS "hidden!"
               FROM app_user u LEFT JOIN inbox_counter c ON c.app_id = u.app_id AND c.user_number = u.number
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

    /// Returns the counters of a user's inbox, and the sequence number of the last event of `stream` that they include. All
    /// are 0 if the projection has committed no event of this stream.
    pub async fn inbox_moment(
        self,
        app: AppId,
        user: UserNumber,
        stream: StreamName,
    ) -> Result<InboxMoment, Error> {
        let row = sqlx::query!(
            r#"SELECT p.seq, c.total AS "total?", c.unread AS "unread?", c.unseen AS "unseen?", c.hidden AS "hidden?"
               FROM checkpoint p
               LEFT JOIN inbox_counter c ON c.app_id = $1 AND c.user_number = $2
               WHERE p.projection = $3 AND p.stream = $4"#,
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

    /// Lists at most `limit` items of a user's inbox, newest first. One statement reads items and counters, so they are
    /// consistent. For items before the page, the statement reads only the index, not the rows.
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
            if let (Some(id), Some(user_number), Some(created_at), Some(content)) =
                (row.id, row.user_number, row.created_at, row.content)
            {
                let item = ItemRow {
                    id,
                    user_number,
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

    /// Counts the items of a user's inbox that match the filter. Returns at most [`MAX_COUNTED`].
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

    /// Finds an item by id. Returns None if the item does not exist or is deleted, if its user no longer exists, or if
    /// `identifier` is given and names another user.
    pub async fn find_item(
        self,
        app: AppId,
        identifier: Option<&str>,
        id: ItemId,
    ) -> Result<Option<InboxItem>, Error> {
        // `OFFSET 0` makes the planner use the primary key instead of the index on items that are not deleted.
        let row = sqlx::query_as!(
            ItemRow,
            r#"SELECT i.id, i.user_number, i.created_at, i.seen_at, i.clicked_at, i.state, i.archived_at, i.snoozed_until,
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

    /// Finds the item that a send added to the user's inbox. Returns None if the item does not exist or was read or deleted.
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

    /// Returns the name of each inbox stream, with the last sequence number that the inbox projection has committed.
    pub async fn positions(self) -> Result<Vec<(String, u64)>, Error> {
        let rows = sqlx::query!("SELECT stream, seq FROM checkpoint WHERE projection = $1", INBOX)
            .fetch_all(&self.0.pool)
            .await?;
        Ok(rows.into_iter().map(|row| (row.stream, row.seq.cast_unsigned())).collect())
    }
}

/// Builds the counters of an inbox from a row. A user without a row of counters has no items.
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

/// The columns from which an [`InboxItem`] and its category are built.
struct ItemRow {
    id: i64,
    user_number: i64,
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
