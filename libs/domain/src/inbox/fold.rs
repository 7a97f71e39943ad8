//! Folds a batch of inbox events into items to add, and steps that then change items in the order of the log.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::AllChange;
use super::item_change::{Change, ItemKey};
use crate::event::{AllItemsChanged, ItemsAdded, UserErased};
use crate::id::partition;
use crate::{AppId, CategoryId, Envelope, Event, ItemId, SendId, Timestamp, UserNumber};

/// Estimated number of rows; a change to one item weighs 1.
const WEIGHT_OF_AN_INBOX: usize = 50;

/// Erased users of a partition. Events that are still in the log add no items for them.
pub type ErasedUsers = HashSet<(AppId, UserNumber)>;

#[derive(Clone, Debug)]
pub struct NewItem {
    pub app: AppId,
    pub user: UserNumber,
    pub id: ItemId,
    /// An inbox has at most one item per send.
    pub send_id: SendId,
    pub category: Option<CategoryId>,
    pub created_at: Timestamp,
    /// JSON text, shared by all items of an event with the same content.
    pub content: Arc<str>,
    pub event_id: Uuid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeInbox {
    pub app: AppId,
    pub user: UserNumber,
    pub up_to: ItemId,
    pub change: AllChange,
    pub at: Timestamp,
}

/// Partition from which the folded events were read.
#[derive(Clone, Copy, Debug)]
pub struct InboxPartition {
    pub partition: u32,
    pub partitions: u32,
}

impl InboxPartition {
    #[must_use]
    pub fn owns(self, app: AppId, user: UserNumber) -> bool {
        partition(app, user, self.partitions) == self.partition
    }

    /// Two partitions must never write the rows of one user.
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

/// The event is invalid, so a retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    #[error("{0} does not belong in an inbox stream")]
    Foreign(&'static str),
    #[error("the event adds items without naming a send")]
    NoSend,
    #[error("a recipient refers to content {0}, which the event lacks")]
    NoContent(u32),
    /// Two partitions would write the user's rows.
    #[error("user {0} belongs to another partition")]
    WrongPartition(i64),
    /// See [`ItemId::derive`].
    #[error("cannot derive an item id: too many recipients, or a sequence beyond 53 bits")]
    NoNumber,
    #[error("content: {0}")]
    Content(#[from] serde_json::Error),
}

/// A folded batch of events. All items are added before any item is changed; the result is the same as if the events were applied one by
/// one, because a change applies only to items that earlier events added.
#[derive(Debug, Default)]
pub struct Fold {
    adds: Vec<NewItem>,
    steps: Vec<Step>,
    weight: usize,
}

/// Changes that are applied together. The steps of a batch are applied one after the other.
#[derive(Debug)]
pub enum Step {
    /// In the order of the log: one statement reads the items, another writes them.
    Items(Vec<(ItemKey, Change)>),
    All(WholeInbox),
    Erasure(AppId, UserNumber),
}

impl Fold {
    /// Adds the event with sequence `seq`, and an erased user to `erased`. An invalid event changes nothing and can never be applied.
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

    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn created_at(&self) -> impl Iterator<Item = Timestamp> {
        self.adds.iter().map(|item| item.created_at)
    }

    #[must_use]
    pub fn adds(&self) -> &[NewItem] {
        &self.adds
    }

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
