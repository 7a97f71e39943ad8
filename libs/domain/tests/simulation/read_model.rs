//! The inbox as lists show it: what the projection writes, in tables of our own.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::inbox::fold::{Change, Changed, Fold, ItemKey, NewItem, Step, WholeInbox, changed};
use domain::inbox::{AllChange, Counts, ItemChange, ItemState};
use domain::{AppId, ItemId, SendId, Timestamp, UserNumber};

use crate::mutant::Mutant;

/// An item of an inbox.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) send_id: SendId,
    pub(crate) created_at: Timestamp,
    /// None once it is deleted.
    pub(crate) content: Option<Arc<str>>,
    pub(crate) state: ItemState,
}

/// All inboxes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadModel {
    pub(crate) items: BTreeMap<ItemKey, Item>,
    sends: BTreeMap<(AppId, UserNumber, SendId), ItemId>,
    pub(crate) counters: BTreeMap<(AppId, UserNumber), Counts>,
}

impl ReadModel {
    /// Writes what a batch comes down to, as its transaction does. Items that are there from the same send are left
    /// out.
    pub(crate) fn write(&mut self, fold: &Fold, now: Timestamp, mutant: Option<Mutant>) {
        let mut adds: Vec<&NewItem> = fold.adds().iter().collect();
        adds.sort_by_key(|add| add.id);
        for add in adds {
            self.add(add, mutant);
        }
        for step in fold.steps() {
            match step {
                Step::Items(changes) if mutant == Some(Mutant::ClockInProjection) => {
                    let changes: Vec<_> =
                        changes.iter().map(|(key, change)| (*key, by_clock(change, now))).collect();
                    self.change_items(&changes);
                }
                Step::Items(changes) => self.change_items(changes),
                Step::All(inbox) => self.change_all(inbox),
                Step::Erasure(app, user) => {
                    self.items.retain(|key, _| (key.0, key.1) != (*app, *user));
                    self.sends.retain(|key, _| (key.0, key.1) != (*app, *user));
                    self.counters.remove(&(*app, *user));
                }
            }
        }
    }

    fn add(&mut self, add: &NewItem, mutant: Option<Mutant>) {
        let is_there = self.sends.contains_key(&(add.app, add.user, add.send_id));
        if is_there && mutant == Some(Mutant::CountersByEvents) {
            self.count(add.app, add.user, ItemState::default().counts());
        }
        if is_there && mutant != Some(Mutant::ItemNotUnique) {
            return;
        }
        self.sends.insert((add.app, add.user, add.send_id), add.id);
        let item = Item {
            send_id: add.send_id,
            created_at: add.created_at,
            content: Some(Arc::clone(&add.content)),
            state: ItemState::default(),
        };
        self.items.insert((add.app, add.user, add.id), item);
        self.count(add.app, add.user, ItemState::default().counts());
    }

    fn change_items(&mut self, changes: &[(ItemKey, Change)]) {
        let mut keys: Vec<ItemKey> = changes.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        let before =
            keys.into_iter().filter_map(|key| Some((key, self.items.get(&key)?.state.clone()))).collect();
        for Changed { key, old, new } in changed(before, changes) {
            self.count(key.0, key.1, new.counts() - old.counts());
            if let Some(item) = self.items.get_mut(&key) {
                item.content = item.content.take().filter(|_| new.deleted_at.is_none());
                item.state = new;
            }
        }
    }

    fn change_all(&mut self, inbox: &WholeInbox) {
        let mut meant = Counts::default();
        let from = (inbox.app, inbox.user, ItemId(0));
        let to = (inbox.app, inbox.user, inbox.up_to);
        if from > to {
            return;
        }
        for item in self.items.range_mut(from..=to).map(|(_, item)| item) {
            let before = item.state.counts();
            if before.changed_by(inbox.change) == 0 {
                continue;
            }
            meant += before;
            item.state.apply(single(inbox.change), inbox.at);
            item.content = item.content.take().filter(|_| item.state.deleted_at.is_none());
        }
        self.count(inbox.app, inbox.user, inbox.change.difference(meant));
    }

    fn count(&mut self, app: AppId, user: UserNumber, counts: Counts) {
        // A row of zeros says as much as none.
        if counts != Counts::default() {
            *self.counters.entry((app, user)).or_default() += counts;
        }
    }

    /// What a recount says, of those who have anything.
    pub(crate) fn recount(&self) -> BTreeMap<(AppId, UserNumber), Counts> {
        let mut counters: BTreeMap<_, Counts> = BTreeMap::new();
        for ((app, user, _), item) in &self.items {
            *counters.entry((*app, *user)).or_default() += item.state.counts();
        }
        counters
    }
}

fn by_clock(change: &Change, now: Timestamp) -> Change {
    match change {
        Change::Item(change, _) => Change::Item(*change, now),
        other => other.clone(),
    }
}

/// The same change to one item.
pub(crate) fn single(change: AllChange) -> ItemChange {
    match change {
        AllChange::Seen => ItemChange::Seen,
        AllChange::Read => ItemChange::Read,
        AllChange::Deleted => ItemChange::Deleted,
    }
}
