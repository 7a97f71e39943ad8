//! The state of inbox items and its changes.

pub mod fold;

use crate::Timestamp;

/// State of an inbox item, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemState {
    /// Time when the user first saw the item; None if it was never seen or was marked unseen since.
    pub seen_at: Option<Timestamp>,
    /// Time when the user read the item; None if it was never read or was marked unread since.
    pub clicked_at: Option<Timestamp>,
    /// Time when the item was removed from the inbox, which is permanent; None if it was not removed.
    pub deleted_at: Option<Timestamp>,
    /// State that the app keeps with the item; None after the item was deleted.
    pub app_state: Option<String>,
}

/// A change to one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemChange {
    /// Marked seen. An item that was already seen keeps its earlier `seen_at`.
    Seen,
    /// Marked unseen, which also marks the item unread.
    Unseen,
    /// Marked read, which also marks the item seen.
    Read,
    /// Marked unread.
    Unread,
    /// Removed from the inbox.
    Deleted,
}

/// A change to every item of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllChange {
    /// Marked seen. Items that were already seen keep their earlier `seen_at`.
    Seen,
    /// Marked read, which also marks the item seen.
    Read,
    /// Removed from the inbox.
    Deleted,
}

/// The inbox counters of a user, or the difference between two states of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items in the inbox.
    pub total: i64,
    /// Items without `clickedAt`.
    pub unread: i64,
    /// Items without `seenAt`.
    pub unseen: i64,
}

impl ItemState {
    /// Applies a change that happened at `at`. A second application of the same change has no effect. A deleted item does not
    /// change.
    pub fn apply(&mut self, change: ItemChange, at: Timestamp) {
        if self.deleted_at.is_some() {
            return;
        }
        match change {
            ItemChange::Seen => self.seen_at = self.seen_at.or(Some(at)),
            ItemChange::Unseen => (self.seen_at, self.clicked_at) = (None, None),
            ItemChange::Read => {
                self.clicked_at = self.clicked_at.or(Some(at));
                self.seen_at = self.seen_at.or(Some(at));
            }
            ItemChange::Unread => self.clicked_at = None,
            ItemChange::Deleted => (self.deleted_at, self.app_state) = (Some(at), None),
        }
    }

    /// Sets the state that the app keeps with the item, or removes it if None. A deleted item does not change.
    pub fn set_app_state(&mut self, app_state: Option<String>) {
        if self.deleted_at.is_none() {
            self.app_state = app_state;
        }
    }

    /// Returns the amounts that this item adds to its user's counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        if self.deleted_at.is_some() {
            return Counts::default();
        }
        Counts {
            total: 1,
            unread: i64::from(self.clicked_at.is_none()),
            unseen: i64::from(self.seen_at.is_none()),
        }
    }
}

impl AllChange {
    /// Returns the effect of this change on the user's counters. `changed` counts the items that the change affects.
    #[must_use]
    pub fn difference(self, changed: Counts) -> Counts {
        let removed = match self {
            AllChange::Seen => Counts { unseen: changed.unseen, ..Counts::default() },
            AllChange::Read => Counts { total: 0, ..changed },
            AllChange::Deleted => changed,
        };
        Counts::default() - removed
    }
}

impl Counts {
    /// Returns the number of items that `change` affects.
    #[must_use]
    pub fn changed_by(self, change: AllChange) -> i64 {
        match change {
            AllChange::Seen => self.unseen,
            AllChange::Read => self.unread,
            AllChange::Deleted => self.total,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.total += other.total;
        self.unread += other.unread;
        self.unseen += other.unseen;
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts {
            total: self.total - other.total,
            unread: self.unread - other.unread,
            unseen: self.unseen - other.unseen,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change() -> impl Strategy<Value = ItemChange> {
        prop_oneof![
            Just(ItemChange::Seen),
            Just(ItemChange::Unseen),
            Just(ItemChange::Read),
            Just(ItemChange::Unread),
            Just(ItemChange::Deleted),
        ]
    }

    proptest! {
        #[test]
        fn read_implies_seen_and_repeats_are_harmless(changes in prop::collection::vec(change(), 0..12)) {
            let mut item = ItemState::default();
            for (step, &change) in changes.iter().enumerate() {
                let at = Timestamp::from_millis(step as i64);
                item.apply(change, at);
                let once = item.clone();
                item.apply(change, at + std::time::Duration::from_secs(1));
                prop_assert_eq!(&item, &once);
                prop_assert!(item.clicked_at.is_none() || item.seen_at.is_some());
            }
            let deleted = changes.contains(&ItemChange::Deleted);
            prop_assert_eq!(item.counts().total, i64::from(!deleted));
        }
    }
}
