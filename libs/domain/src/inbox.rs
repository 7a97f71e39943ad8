pub mod fold;
pub mod item_change;

use crate::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemState {
    /// When the user first saw the item; None if it was never seen or was marked unseen since.
    pub seen_at: Option<Timestamp>,
    /// None if the item was never read or was marked unread since.
    pub clicked_at: Option<Timestamp>,
    /// Removal from the inbox is permanent.
    pub deleted_at: Option<Timestamp>,
    /// State that the app keeps with the item; None after the item was deleted.
    pub app_state: Option<String>,
    /// An archived item is not snoozed.
    pub archived_at: Option<Timestamp>,
    pub snoozed_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemChange {
    /// An item that was already seen keeps its earlier `seen_at`.
    Seen,
    /// Also marks the item unread.
    Unseen,
    Read,
    Unread,
    Deleted,
    Archived,
    Unarchived,
}

/// A change to every item on a user's list. Archived and snoozed items do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllChange {
    /// Items that were already seen keep their earlier `seen_at`.
    Seen,
    Read,
    Deleted,
}

/// Inbox counters of a user, or the difference between two states of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that are neither archived nor snoozed.
    pub total: i64,
    /// Items on the list without `clickedAt`.
    pub unread: i64,
    /// Items on the list without `seenAt`.
    pub unseen: i64,
    pub hidden: i64,
}

impl ItemChange {
    /// Changes from before 0.5.0 come first.
    pub const ALL: [ItemChange; 7] = [
        ItemChange::Seen,
        ItemChange::Unseen,
        ItemChange::Read,
        ItemChange::Unread,
        ItemChange::Deleted,
        ItemChange::Archived,
        ItemChange::Unarchived,
    ];
}

impl ItemState {
    /// Applies a change that happened at `at`. A second application of the same change has no effect. A deleted item does not change.
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
            ItemChange::Deleted => *self = ItemState { deleted_at: Some(at), ..self.marks() },
            ItemChange::Archived => {
                self.archived_at = self.archived_at.or(Some(at));
                self.snoozed_until = None;
            }
            ItemChange::Unarchived => self.archived_at = None,
        }
    }

    /// Hides the item until the given time, which also moves it out of the archive. A deleted item does not change.
    pub fn snooze(&mut self, until: Timestamp) {
        if self.deleted_at.is_none() {
            (self.snoozed_until, self.archived_at) = (Some(until), None);
        }
    }

    /// Ends the snooze if its time is at most `due`, or in any case if `due` is None. The item is then unread and unseen.
    pub fn end_snooze(&mut self, due: Option<Timestamp>) {
        let is_due = |until| due.is_none_or(|due| until <= due);
        if self.snoozed_until.is_some_and(is_due) {
            (self.snoozed_until, self.seen_at, self.clicked_at) = (None, None, None);
        }
    }

    /// Archived or snoozed. Lists without a filter leave such items out.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.archived_at.is_some() || self.snoozed_until.is_some()
    }

    fn marks(&self) -> ItemState {
        ItemState { seen_at: self.seen_at, clicked_at: self.clicked_at, ..ItemState::default() }
    }

    /// A deleted item does not change.
    pub fn set_app_state(&mut self, app_state: Option<String>) {
        if self.deleted_at.is_none() {
            self.app_state = app_state;
        }
    }

    /// Amounts that this item adds to its user's counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        if self.deleted_at.is_some() {
            return Counts::default();
        }
        if self.is_hidden() {
            return Counts { hidden: 1, ..Counts::default() };
        }
        Counts {
            total: 1,
            unread: i64::from(self.clicked_at.is_none()),
            unseen: i64::from(self.seen_at.is_none()),
            hidden: 0,
        }
    }
}

impl AllChange {
    /// Effect of this change on the user's counters. `changed` counts the items that the change affects.
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
        self.hidden += other.hidden;
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts {
            total: self.total - other.total,
            unread: self.unread - other.unread,
            unseen: self.unseen - other.unseen,
            hidden: self.hidden - other.hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Step {
        Change(ItemChange),
        Snooze(i64),
        EndSnooze(Option<i64>),
    }

    impl Step {
        fn apply(self, item: &mut ItemState, at: Timestamp) {
            match self {
                Step::Change(change) => item.apply(change, at),
                Step::Snooze(until) => item.snooze(Timestamp::from_millis(until)),
                Step::EndSnooze(due) => item.end_snooze(due.map(Timestamp::from_millis)),
            }
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::sample::select(&ItemChange::ALL).prop_map(Step::Change),
            (0..5_i64).prop_map(Step::Snooze),
            prop::option::of(0..5_i64).prop_map(Step::EndSnooze),
        ]
    }

    proptest! {
        #[test]
        fn an_item_is_in_one_place_and_repeats_are_harmless(steps in prop::collection::vec(step(), 0..12)) {
            let mut item = ItemState::default();
            for (number, &step) in steps.iter().enumerate() {
                let at = Timestamp::from_millis(number as i64);
                step.apply(&mut item, at);
                let once = item.clone();
                step.apply(&mut item, at + std::time::Duration::from_secs(1));
                prop_assert_eq!(&item, &once);
                prop_assert!(item.clicked_at.is_none() || item.seen_at.is_some());
                let places = [item.deleted_at, item.archived_at, item.snoozed_until];
                prop_assert!(places.iter().flatten().count() <= 1);
                let Counts { total, unread, unseen, hidden } = item.counts();
                prop_assert_eq!(total + hidden, i64::from(item.deleted_at.is_none()));
                prop_assert!(unread <= total && unseen <= unread);
            }
            let deleted = steps.contains(&Step::Change(ItemChange::Deleted));
            prop_assert_eq!(item.deleted_at.is_some(), deleted);
        }
    }

    #[test]
    fn a_snooze_ends_at_its_time_and_the_item_is_new_again() {
        let at = Timestamp::from_millis;
        let mut item = ItemState::default();
        item.apply(ItemChange::Read, at(1));
        item.snooze(at(50));
        item.end_snooze(Some(at(49)));
        assert_eq!((item.snoozed_until, item.clicked_at), (Some(at(50)), Some(at(1))));
        item.end_snooze(Some(at(50)));
        assert_eq!(item, ItemState::default());

        item.apply(ItemChange::Read, at(60));
        item.end_snooze(None);
        assert_eq!(item.clicked_at, Some(at(60)), "an item that is not snoozed keeps its marks");
        item.snooze(at(70));
        item.apply(ItemChange::Archived, at(61));
        item.end_snooze(Some(at(70)));
        assert_eq!((item.archived_at, item.clicked_at), (Some(at(61)), Some(at(60))));
    }
}
