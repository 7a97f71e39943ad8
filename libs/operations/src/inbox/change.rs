//! Durable changes to inboxes. A use case waits up to 1.5 s until the inbox shows its change.

use std::time::Duration;

use domain::event::{AllItemsChanged, ItemStateSet, ItemsChanged, ItemsSnoozed, SnoozesEnded};
use domain::id::{RECIPIENTS_PER_EVENT, partition};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, StreamName, Timestamp, UserNumber};
use service_kit::{clock, trace};
use store::inbox::list::{InboxFilter, InboxItem, PageStart};

use crate::inbox::Inboxes;
use crate::waiting::database;
use crate::{Caller, OperationError, OwnUser, Permission};

/// Maximum time for which a use case waits until the inbox shows its change.
const VISIBLE_WITHIN: Duration = Duration::from_millis(1500);

/// A change to items of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Mark(ItemChange),
    /// Takes the items off the list until this time.
    Snooze(Timestamp),
    Unsnooze,
}

/// A durable change that the inbox shows, or does not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recency<T> {
    /// Every list shows the change.
    Shown(T),
    NotYet,
}

impl<T> Recency<T> {
    fn map<U>(self, convert: impl FnOnce(T) -> U) -> Recency<U> {
        match self {
            Recency::Shown(value) => Recency::Shown(convert(value)),
            Recency::NotYet => Recency::NotYet,
        }
    }
}

impl Change {
    fn event(self, user: UserNumber, items: Vec<ItemId>) -> Event {
        match self {
            Change::Mark(change) => Event::InboxItemsChanged(change, ItemsChanged { user, items }),
            Change::Snooze(until) => Event::InboxItemsSnoozed(ItemsSnoozed { user, items, until }),
            Change::Unsnooze => Event::InboxSnoozesEnded(SnoozesEnded { user, items, due: None }),
        }
    }
}

impl Inboxes {
    /// Changes an item, and returns it. A caller that acts for a user changes only items of this user. To delete an item, call
    /// [`delete`](Self::delete), because a deleted item cannot be returned.
    ///
    /// # Errors
    /// Returns [`Object::Notification`](crate::Object::Notification) if there is no such item.
    pub async fn change(
        &self,
        caller: &Caller,
        app: AppId,
        id: ItemId,
        change: Change,
    ) -> Result<Recency<InboxItem>, OperationError> {
        let item = self.find_for(caller, app, id, Permission::ChangeItems).await?;
        self.change_found(caller, app, &item, change.event(item.user, vec![item.id])).await
    }

    /// Sets the app-defined state of an item, or removes it, and returns the item.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`change`](Self::change).
    pub async fn set_state(
        &self,
        caller: &Caller,
        app: AppId,
        id: ItemId,
        state: Option<String>,
    ) -> Result<Recency<InboxItem>, OperationError> {
        let item = self.find_for(caller, app, id, Permission::ChangeItems).await?;
        let set = ItemStateSet { user: item.user, item: item.id, state };
        self.change_found(caller, app, &item, Event::InboxItemStateSet(set)).await
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`change`](Self::change).
    pub async fn delete(
        &self,
        caller: &Caller,
        app: AppId,
        id: ItemId,
    ) -> Result<Recency<()>, OperationError> {
        let item = self.find_for(caller, app, id, Permission::ChangeItems).await?;
        let event = Change::Mark(ItemChange::Deleted).event(item.user, vec![item.id]);
        self.publish_as(caller, app, item.user, event).await
    }

    /// Finds an item and marks it as seen. If it cannot be marked, or the inbox does not show that in time, returns the item
    /// unchanged.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`find`](Self::find).
    pub async fn open(&self, caller: &Caller, app: AppId, id: ItemId) -> Result<InboxItem, OperationError> {
        let item = self.find_for(caller, app, id, Permission::ChangeItems).await?;
        if item.state.seen_at.is_some() {
            return Ok(item);
        }
        let seen = Change::Mark(ItemChange::Seen).event(item.user, vec![item.id]);
        match self.change_found(caller, app, &item, seen).await {
            Ok(Recency::Shown(seen)) => Ok(seen),
            Ok(Recency::NotYet) => Ok(item),
            Err(error) => {
                tracing::warn!(%error, "cannot mark a retrieved notification as seen; returning it unchanged");
                Ok(item)
            }
        }
    }

    /// Changes several items of the caller's user, and returns their number. Ignores ids that are not in the inbox.
    pub async fn change_many(
        &self,
        caller: &Caller,
        ids: &[ItemId],
        change: Change,
    ) -> Result<Recency<i64>, OperationError> {
        let own = caller.own(Permission::OwnInbox)?;
        let Some(owner) = self.owner(caller).await? else { return Ok(Recency::Shown(0)) };
        let keys: Vec<_> = ids.iter().map(|id| (own.app, owner.user, *id)).collect();
        let found = database(self.store.inbox().current_items(&keys)).await?;
        let items: Vec<_> = found.into_iter().filter_map(|found| found.item).map(|item| item.id).collect();
        self.change_listed(caller, own, owner.user, items, change).await
    }

    /// Marks the unseen items of a page as seen, and returns their number.
    pub async fn mark_page_seen(
        &self,
        caller: &Caller,
        filter: InboxFilter<'_>,
        start: PageStart,
        limit: i64,
    ) -> Result<Recency<i64>, OperationError> {
        let own = caller.own(Permission::OwnInbox)?;
        let Some(owner) = self.owner(caller).await? else { return Ok(Recency::Shown(0)) };
        let listing = self.store.inbox().list_inbox(own.app, owner.user, filter, start, limit);
        let page = database(listing).await?;
        let unseen = page.items.iter().filter(|item| item.state.seen_at.is_none());
        let items = unseen.map(|item| item.id).collect();
        self.change_listed(caller, own, owner.user, items, Change::Mark(ItemChange::Seen)).await
    }

    /// Changes all current items of the caller's user, and returns the number of items that change. Items that arrive after the
    /// call has started stay unchanged.
    pub async fn change_all(
        &self,
        caller: &Caller,
        change: AllChange,
    ) -> Result<Recency<i64>, OperationError> {
        let own = caller.own(Permission::OwnInbox)?;
        let Some(owner) = self.owner(caller).await? else { return Ok(Recency::Shown(0)) };
        let number = partition(own.app, owner.user, self.partitions);
        let moment = self.store.inbox().inbox_moment(own.app, owner.user, StreamName::Inbox(number));
        let moment = database(moment).await?;
        let count = moment.counts.changed_by(change);
        if count == 0 {
            return Ok(Recency::Shown(0));
        }
        // Ids derive from the sequences of the log. So items that arrive from now on have ids above `up_to`, and this call does
        // not change them.
        let last_index = u32::try_from(RECIPIENTS_PER_EVENT - 1).unwrap_or(u32::MAX);
        let up_to = ItemId::derive(moment.position, number, self.partitions, last_index)
            .ok_or_else(|| OperationError::Defect(format!("INBOX_{number} is beyond 53 bits").into()))?;
        let event = Event::InboxAllChanged(change, AllItemsChanged { user: owner.user, up_to });
        Ok(self.publish_as(caller, own.app, owner.user, event).await?.map(|()| count))
    }

    /// Marks the item of the caller's click link as read. If the item is missing or was read, nothing changes.
    pub async fn report_click(&self, caller: &Caller) -> Result<(), OperationError> {
        let (app, user, send) = caller.click_link()?;
        if let Some(item) = database(self.store.inbox().unread_item_of(app, user, send)).await? {
            self.publish(app, user, Change::Mark(ItemChange::Read).event(user, vec![item])).await?;
        }
        Ok(())
    }

    async fn change_listed(
        &self,
        caller: &Caller,
        own: &OwnUser,
        user: UserNumber,
        items: Vec<ItemId>,
        change: Change,
    ) -> Result<Recency<i64>, OperationError> {
        if items.is_empty() {
            return Ok(Recency::Shown(0));
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let published = self.publish_as(caller, own.app, user, change.event(user, items)).await?;
        Ok(published.map(|()| count))
    }

    async fn change_found(
        &self,
        caller: &Caller,
        app: AppId,
        item: &InboxItem,
        event: Event,
    ) -> Result<Recency<InboxItem>, OperationError> {
        match self.publish_as(caller, app, item.user, event).await? {
            Recency::Shown(()) => {
                let changed = self.find_for(caller, app, item.id, Permission::ChangeItems).await?;
                Ok(Recency::Shown(changed))
            }
            Recency::NotYet => Ok(Recency::NotYet),
        }
    }

    /// Publishes a change of the caller. Like every other write with a proof, a change with a proof first ends what callers
    /// without a proof registered for the user.
    async fn publish_as(
        &self,
        caller: &Caller,
        app: AppId,
        user: UserNumber,
        event: Event,
    ) -> Result<Recency<()>, OperationError> {
        if caller.acts_for().is_none_or(|own| own.author.has_proof()) {
            database(self.store.directory().end_unproven_of(app, user)).await?;
        }
        self.publish(app, user, event).await
    }

    /// Publishes a change of a user's inbox, then waits until the inbox shows it. Fails if the log does not confirm the change.
    async fn publish(
        &self,
        app: AppId,
        user: UserNumber,
        event: Event,
    ) -> Result<Recency<()>, OperationError> {
        let partition = partition(app, user, self.partitions);
        let event = Envelope {
            id: clock::new_id(),
            app,
            at: clock::now(),
            send_id: None,
            caused_by: None,
            trace: trace::current_traceparent(),
            event,
        };
        let seq = self.publisher.append(StreamName::Inbox(partition), &event).await?;
        let is_shown = self.positions.reach(partition, seq, VISIBLE_WITHIN).await;
        Ok(if is_shown { Recency::Shown(()) } else { Recency::NotYet })
    }
}
