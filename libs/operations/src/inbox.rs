//! Inboxes of users: reading them, and durable changes to them.

mod change;
mod positions;

use std::sync::Arc;

use domain::inbox::Counts;
use domain::{AppId, ItemId};
use service_kit::Context;
use store::Store;
use store::inbox::list::{InboxFilter, InboxItem, InboxOwner, InboxPage, PageStart, Place};
use tokio_util::sync::CancellationToken;

use crate::publisher::Publisher;
use crate::waiting::database;
use crate::{Caller, Object, OperationError, Permission};

pub use change::{Change, Recency};
pub use positions::Positions;

/// Use cases of inboxes, and what they share.
pub struct Inboxes {
    store: Store,
    publisher: Arc<Publisher>,
    positions: Positions,
    /// Number of inbox partitions of the installation.
    partitions: u32,
}

/// A page of an inbox.
#[derive(Debug, Default)]
pub struct Listed {
    pub page: InboxPage,
    /// True if further items follow.
    pub has_more: bool,
    /// Number of items that match the filter. If the counters of the inbox do not contain it, the items are counted, up to
    /// [`MAX_COUNTED`](store::inbox::list::MAX_COUNTED).
    pub total: i64,
}

impl Inboxes {
    /// Starts the task that follows the projection, until `served` is cancelled.
    #[must_use]
    pub fn start(context: &Context, publisher: Arc<Publisher>, served: &CancellationToken) -> Inboxes {
        let partitions = context.partitions;
        let positions = Positions::new(partitions);
        context.spawn("inbox positions", positions.clone().follow_until(served.clone(), context.clone()));
        Inboxes { store: context.store.clone(), publisher, positions, partitions }
    }

    /// Returns the progress of the projection, for live updates.
    #[must_use]
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Returns the caller's user with the counters of the inbox. Returns None if the user does not exist.
    pub async fn owner(&self, caller: &Caller) -> Result<Option<InboxOwner>, OperationError> {
        let own = caller.own(Permission::OwnInbox)?;
        database(self.store.inbox().inbox_owner(own.app, &own.identifier)).await
    }

    /// Returns the counters of the inbox. All are 0 for an unknown user.
    pub async fn counts(&self, caller: &Caller) -> Result<Counts, OperationError> {
        Ok(self.owner(caller).await?.map(|owner| owner.counts).unwrap_or_default())
    }

    /// Lists at most `limit` items of the inbox that match the filter, newest first. The inbox of an unknown user is empty.
    pub async fn list(
        &self,
        caller: &Caller,
        filter: InboxFilter<'_>,
        start: PageStart,
        limit: usize,
    ) -> Result<Listed, OperationError> {
        let own = caller.own(Permission::OwnInbox)?;
        let Some(owner) = self.owner(caller).await? else { return Ok(Listed::default()) };
        let inbox = self.store.inbox();
        // Read one item more than the page shows, to find out if another page follows.
        let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut page = database(inbox.list_inbox(own.app, owner.user, filter, start, wanted)).await?;
        let has_more = page.items.len() > limit;
        page.items.truncate(limit);
        let total = match counted(filter, page.counts) {
            Some(total) => total,
            None => database(inbox.count_inbox(own.app, owner.user, filter)).await?,
        };
        Ok(Listed { page, has_more, total })
    }

    /// Finds an item. A caller that acts for a user finds only items of this user.
    ///
    /// # Errors
    /// Returns [`Object::Notification`] if there is no such item.
    pub async fn find(&self, caller: &Caller, app: AppId, id: ItemId) -> Result<InboxItem, OperationError> {
        self.find_for(caller, app, id, Permission::ViewItems).await
    }

    async fn find_for(
        &self,
        caller: &Caller,
        app: AppId,
        id: ItemId,
        permission: Permission,
    ) -> Result<InboxItem, OperationError> {
        let own = caller.reach(permission, app)?;
        let user = own.map(|own| own.identifier.as_str());
        let item = database(self.store.inbox().find_item(app, user, id)).await?;
        item.ok_or(OperationError::NotFound(Object::Notification))
    }
}

/// Returns the number of items that match the filter, if the counters of the inbox contain it.
fn counted(filter: InboxFilter<'_>, counts: Counts) -> Option<i64> {
    let InboxFilter { category, read, seen, has_state, place } = filter;
    if category.is_some() || has_state.is_some() || place != Place::List {
        return None;
    }
    match (read, seen) {
        (None, None) => Some(counts.total),
        (Some(false), None) => Some(counts.unread),
        (Some(true), None) => Some(counts.total - counts.unread),
        (None, Some(false)) => Some(counts.unseen),
        (None, Some(true)) => Some(counts.total - counts.unseen),
        (Some(_), Some(_)) => None,
    }
}
