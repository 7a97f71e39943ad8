//! Folds a batch of inbox events into items to add, and steps that then change items. The steps follow the order of the log.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::AllChange;
use super::item_change::{Change, ItemKey};
use crate::event::{AllItemsChanged, ItemsAdded, UserErased};
use crate::id::partition;
use crate::{AppId, CategoryId, Envelope, Event, ItemId, SendId, Timestamp, UserNumber};

/// Weight of a change to a whole inbox. The weight of a change estimates how many rows it changes, so a change to one item weighs
/// 1.
const WEIGHT_OF_AN_INBOX: usize = 50;

/// The erased users of a partition. Events that are still in the log add no items for these users.
pub type ErasedUsers = HashSet<(AppId, UserNumber)>;

/// An item to add.
#[derive(Clone, Debug)]
pub struct NewItem {
    pub app: AppId,
    pub user: UserNumber,
    /// Identifier in the API.
    pub id: ItemId,
    /// The send that created the item. An inbox has at most one item per send.
    pub send_id: SendId,
    pub category: Option<CategoryId>,
    pub created_at: Timestamp,
    /// Content as JSON text, shared by all items of an event with the same content.
    pub content: Arc<str>,
    /// Id of the event that added the item.
    pub event_id: Uuid,
}

/// A change to every item on the list of a user, up to a given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeInbox {
    pub app: AppId,
    pub user: UserNumber,
    /// The highest id that changes.
    pub up_to: ItemId,
    /// The change to the items.
    pub change: AllChange,
    pub at: Timestamp,
}

/// The partition from which the folded events were read.
#[derive(Clone, Copy, Debug)]
pub struct InboxPartition {
    pub partition: u32,
    /// Number of partitions.
    pub partitions: u32,
}

impl InboxPartition {
    /// Returns true if the user belongs to this partition.
    #[must_use]
    pub fn owns(self, app: AppId, user: UserNumber) -> bool {
        partition(app, user, self.partitions) == self.partition
    }

    /// Checks that the user belongs to this partition. Two partitions must never write the rows of one user.
    fn check(self, app: AppId, user: UserNumber) -> Result<(), FoldError> {
        if self.owns(app, user) { Ok(()) } else { Err(FoldError::WrongPartition(user.0)) }
    }

    /// Returns the highest id that an item of this user can have if an event before sequence `seq` added it.
    fn last_before(self, app: AppId, user: UserNumber, seq: u64) -> Result<ItemId, FoldError> {
        self.check(app, user)?;
        let first = ItemId::derive(seq, 0, self.partitions, 0).ok_or(FoldError::NoNumber)?;
        Ok(ItemId(first.0 - 1))
    }
}

/// Error while applying an event. The event is invalid, so a retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// The event type belongs to another stream.
    #[error("{0} does not belong in an inbox stream")]
    Foreign(&'static str),
    /// The event names no send.
    #[error("the event adds items without naming a send")]
    NoSend,
    /// The content of a recipient is missing.
    #[error("a recipient refers to content {0}, which the event lacks")]
    NoContent(u32),
    /// The user belongs to another partition, so two partitions would write the user's rows.
    #[error("user {0} belongs to another partition")]
    WrongPartition(i64),
    /// No id can be derived for an item; see [`ItemId::derive`].
    #[error("cannot derive an item id: too many recipients, or a sequence beyond 53 bits")]
    NoNumber,
    /// Content cannot be written as JSON.
    #[error("content: {0}")]
    Content(#[from] serde_json::Error),
}

/// A folded batch of events. All items are added before any item is changed. The result is the same as if the events were applied
/// one by one, because a change applies only to items that earlier events added.
#[derive(Debug, Default)]
pub struct Fold {
    adds: Vec<NewItem>,
    steps: Vec<Step>,
    weight: usize,
}

/// Changes that are applied together. The steps of a batch are applied one after the other.
#[derive(Debug)]
pub enum Step {
    /// Changes to single items, in the order of the log: one statement reads the items, another writes them.
    Items(Vec<(ItemKey, Change)>),
    /// A change to all items on the list of a user.
    All(WholeInbox),
    /// A user was erased.
    Erasure(AppId, UserNumber),
}

impl Fold {
    /// Adds the event with sequence `seq`. If the event erases a user, the user is also added to `erased`. An invalid event
    /// changes nothing.
    ///
    /// # Errors
    /// Returns an error if the event is invalid. An invalid event can never be applied.
    pub fn push(
        &mut self,
        origin: InboxPartition,
        seq: u64,
        envelope: &Envelope,
        erased: &mut ErasedUsers,
    ) -> Result<(), FoldError> {
        let (app, at) = (envelope.app, envelope.at);
        let last = |user| origin.last_before(app, user, seq);
        match &envelope.event {
            Event::InboxItemsAdded(added) => {
                let items = new_items(origin, seq, envelope, added)?;
                self.weight += items.len();
                self.adds.extend(items.into_iter().filter(|item| !erased.contains(&(app, item.user))));
            }
            Event::InboxItemsChanged(change, items) => {
                self.change(last(items.user)?, app, items.user, &items.items, &Change::Item(*change, at));
            }
            Event::InboxItemStateSet(set) => {
                self.change(
                    last(set.user)?,
                    app,
                    set.user,
                    &[set.item],
                    &Change::AppState(set.state.clone()),
                );
            }
            Event::InboxItemsSnoozed(snooze) => {
                self.change(
                    last(snooze.user)?,
                    app,
                    snooze.user,
                    &snooze.items,
                    &Change::Snoozed(snooze.until),
                );
            }
            Event::InboxSnoozesEnded(end) => {
                self.change(last(end.user)?, app, end.user, &end.items, &Change::SnoozeEnded(end.due));
            }
            &Event::InboxAllChanged(change, AllItemsChanged { user, up_to }) => {
                let up_to = last(user)?.min(up_to);
                self.weight += WEIGHT_OF_AN_INBOX;
                self.steps.push(Step::All(WholeInbox { app, user, up_to, change, at }));
            }
            &Event::UserErased(UserErased { user, .. }) => {
                origin.check(app, user)?;
                erased.insert((app, user));
                self.weight += WEIGHT_OF_AN_INBOX;
                self.steps.push(Step::Erasure(app, user));
            }
            other => return Err(FoldError::Foreign(other.kind())),
        }
        Ok(())
    }

    /// Makes the same change to several items of a user. Ignores ids above `last`, which items get only later.
    fn change(&mut self, last: ItemId, app: AppId, user: UserNumber, items: &[ItemId], change: &Change) {
        let existing = items.iter().filter(|&&item| item <= last);
        let changed: Vec<_> = existing.map(|&item| ((app, user, item), change.clone())).collect();
        self.weight += changed.len();
        match self.steps.last_mut() {
            Some(Step::Items(changes)) => changes.extend(changed),
            _ if changed.is_empty() => {}
            _ => self.steps.push(Step::Items(changed)),
        }
    }

    /// Approximate number of rows that this batch changes when it is applied.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the creation times of all items to add.
    pub fn created_at(&self) -> impl Iterator<Item = Timestamp> {
        self.adds.iter().map(|item| item.created_at)
    }

    /// The items to add before any step.
    #[must_use]
    pub fn adds(&self) -> &[NewItem] {
        &self.adds
    }

    /// The steps to apply, one after the other, after the items were added.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

fn new_items(
    origin: InboxPartition,
    seq: u64,
    envelope: &Envelope,
    added: &ItemsAdded,
) -> Result<Vec<NewItem>, FoldError> {
    let send_id = envelope.send_id.ok_or(FoldError::NoSend)?;
    let contents: Vec<Arc<str>> = added
        .contents
        .iter()
        .map(|content| Ok(Arc::from(serde_json::to_string(content)?)))
        .collect::<Result<_, FoldError>>()?;
    let numbered = (added.first..).zip(&added.recipients);
    numbered
        .map(|(index, &(user, content))| {
            origin.check(envelope.app, user)?;
            let content = contents.get(content as usize).ok_or(FoldError::NoContent(content))?;
            Ok(NewItem {
                app: envelope.app,
                user,
                id: ItemId::derive(seq, origin.partition, origin.partitions, index)
                    .ok_or(FoldError::NoNumber)?,
                send_id,
                category: added.category_id,
                created_at: added.created_at,
                content: Arc::clone(content),
                event_id: envelope.id,
            })
        })
        .collect()
}
