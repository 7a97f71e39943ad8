//! Model of an inbox: the lists that a user must see after all answers so far.

use std::collections::BTreeMap;

use crate::journal::{Change, Page, ShownItem};

/// A user's knowledge about the value of one property of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact<T> {
    /// Every list shows this value, until the user changes it.
    Is(T),
    /// A change to this value was accepted, but may not be visible yet.
    Becomes(T),
    /// A change got no answer. It may already have been made, may be made later, or may never be made.
    Open,
}

/// Answer of the API to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Shown,
    Stored,
    Unknown,
}

impl<T> Fact<T> {
    fn set(&mut self, value: T, answer: Answer) {
        *self = match (answer, &self) {
            (_, Fact::Open) | (Answer::Unknown, _) => Fact::Open,
            (Answer::Shown, _) => Fact::Is(value),
            (Answer::Stored, _) => Fact::Becomes(value),
        };
    }

    /// Applies to one item a change that was requested for the whole inbox. If the item's current value is uncertain, so is its
    /// new value.
    fn set_visible(&mut self, value: T, answer: Answer) {
        match self {
            Fact::Is(_) => self.set(value, answer),
            Fact::Becomes(_) | Fact::Open => *self = Fact::Open,
        }
    }

    fn denied_by(&self, seen: &T) -> bool
    where
        T: PartialEq,
    {
        matches!(self, Fact::Is(value) if value != seen)
    }

    /// Returns true if the property cannot have this value at the end of the run.
    pub(super) fn excludes(&self, end: &T) -> bool
    where
        T: PartialEq,
    {
        matches!(self, Fact::Is(value) | Fact::Becomes(value) if value != end)
    }
}

/// An item that a list has shown.
#[derive(Clone, Debug)]
pub(super) struct KnownItem {
    title: String,
    created_at: i64,
    pub(super) seen: Fact<bool>,
    pub(super) read: Fact<bool>,
    pub(super) state: Fact<Option<String>>,
    pub(super) archived: Fact<bool>,
    pub(super) deleted: Fact<bool>,
    /// True until the user snoozes the item. It then returns at a time that the model does not know.
    is_listed: bool,
}

/// An inbox as its user knows it.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) items: BTreeMap<i64, KnownItem>,
    /// True if a change to the whole inbox was requested. An item may then already be changed when a list first shows it.
    whole: bool,
    /// True if "read all" was requested and not confirmed as visible, so that it may still change items.
    late_read: bool,
    /// True if "delete all" was requested and not confirmed as visible.
    late_deleted: bool,
}

impl Inbox {
    /// Applies a change. `status` is the status of its answer, or None if no answer came until `at`. Returns a violation if the answer
    /// contradicts the model.
    pub(super) fn change(&mut self, change: &Change, status: Option<u16>, at: i64) -> Option<String> {
        let answer = match status {
            Some(200) => Answer::Shown,
            Some(202) => Answer::Stored,
            Some(404) => return self.not_found(change),
            Some(400) if change.may_be_refused(at) => return None,
            Some(408) => Answer::Unknown,
            Some(400..500) => return Some(format!("{change:?} was refused: {status:?}")),
            _ => Answer::Unknown,
        };
        match change {
            Change::AllRead => {
                (self.whole, self.late_read) = (true, self.late_read || answer != Answer::Shown);
                for item in self.items.values_mut().filter(|item| item.archived != Fact::Is(true)) {
                    let answer = item.answer_to_whole(answer);
                    item.seen.set_visible(true, answer);
                    item.read.set_visible(true, answer);
                }
            }
            Change::AllDeleted => {
                (self.whole, self.late_deleted) = (true, self.late_deleted || answer != Answer::Shown);
                for item in self.items.values_mut().filter(|item| item.archived != Fact::Is(true)) {
                    let answer = item.answer_to_whole(answer);
                    item.deleted.set_visible(true, answer);
                }
            }
            Change::Seen(id) => self.item(*id, |item| item.seen.set(true, answer)),
            Change::Unseen(id) => self.item(*id, |item| {
                item.seen.set(false, answer);
                item.read.set(false, answer);
            }),
            Change::Read(id) => self.item(*id, |item| {
                item.seen.set(true, answer);
                item.read.set(true, answer);
            }),
            Change::Unread(id) => self.item(*id, |item| item.read.set(false, answer)),
            Change::Deleted(id) => self.item(*id, |item| item.deleted.set(true, answer)),
            Change::Archived(id) => self.item(*id, |item| item.archived.set(true, answer)),
            // The item leaves the list, and is unread and unseen when it returns.
            Change::Snoozed(id, _) => self.item(*id, |item| {
                item.archived.set(false, answer);
                (item.is_listed, item.seen, item.read) = (false, Fact::Open, Fact::Open);
            }),
            Change::StateSet(id, state) => self.item(*id, |item| item.state.set(Some(state.clone()), answer)),
        }
        None
    }

    fn item(&mut self, id: i64, change: impl FnOnce(&mut KnownItem)) {
        if let Some(item) = self.items.get_mut(&id) {
            change(item);
        }
    }

    fn not_found(&self, change: &Change) -> Option<String> {
        let (Change::Seen(id)
        | Change::Unseen(id)
        | Change::Read(id)
        | Change::Unread(id)
        | Change::Deleted(id)
        | Change::Archived(id)
        | Change::Snoozed(id, _)
        | Change::StateSet(id, _)) = change
        else {
            return Some(format!("{change:?} got a 404"));
        };
        let is_there = self.items.get(id).is_some_and(|item| item.deleted == Fact::Is(false));
        is_there.then(|| format!("{change:?} got a 404, although the item was listed and never deleted"))
    }

    /// Applies a list. Returns the violations if the list contradicts the model.
    pub(super) fn list(&mut self, page: &Page) -> Vec<String> {
        let mut wrong = self.missing(page);
        if !page.more && page.items.len() < 20 {
            let count = |is: fn(&ShownItem) -> bool| page.items.iter().filter(|item| is(item)).count() as i64;
            let counted = (count(|_| true), count(|item| !item.read), count(|item| !item.seen));
            if counted != (page.total, page.unread, page.unseen) {
                wrong.push(format!("a list shows {counted:?}, which differs from its counters: {page:?}"));
            }
        }
        for shown in &page.items {
            match self.items.get(&shown.id) {
                Some(known) => wrong.extend(known.denied_by(shown)),
                None => wrong.extend(self.add_item(shown)),
            }
        }
        wrong
    }

    /// Items that are missing from the page: known, not deleted, and newer than its last item.
    fn missing(&self, page: &Page) -> Vec<String> {
        let end = page.items.last().filter(|_| page.more).map(|item| (item.created_at, item.id));
        let is_shown = |id: &i64| page.items.iter().any(|item| item.id == *id);
        let gone = self.items.iter().filter(|(id, item)| {
            item.deleted == Fact::Is(false)
                && item.is_certainly_listed()
                && end.is_none_or(|end| (item.created_at, **id) > end)
                && !is_shown(id)
        });
        gone.map(|(id, item)| format!("item {id} ({}) is no longer listed", item.title)).collect()
    }

    /// Applies an item that a list shows for the first time.
    fn add_item(&mut self, shown: &ShownItem) -> Option<String> {
        let twin = self.items.iter().find(|(_, known)| known.title == shown.title);
        let twin = twin.map(|(id, known)| format!("{} is listed as {id} and as {}", known.title, shown.id));
        let is_new = !shown.seen && !shown.read && shown.state.is_none();
        let touched = (!is_new && !self.whole).then(|| format!("{shown:?} is new, but already changed"));
        let fact = |value, late| if late { Fact::Open } else { Fact::Is(value) };
        let known = KnownItem {
            title: shown.title.clone(),
            created_at: shown.created_at,
            seen: fact(shown.seen, self.late_read),
            read: fact(shown.read, self.late_read),
            state: Fact::Is(shown.state.clone()),
            archived: Fact::Is(false),
            deleted: fact(false, self.late_deleted),
            is_listed: true,
        };
        self.items.insert(shown.id, known);
        twin.or(touched)
    }
}

impl KnownItem {
    /// Returns true if the item was neither archived nor snoozed.
    fn is_certainly_listed(&self) -> bool {
        self.is_listed && self.archived == Fact::Is(false)
    }

    /// Returns what the answer to a change of the whole inbox says about this item. Such a change leaves items alone that are not on
    /// the list.
    fn answer_to_whole(&self, answer: Answer) -> Answer {
        if self.is_certainly_listed() { answer } else { Answer::Unknown }
    }

    fn denied_by(&self, shown: &ShownItem) -> Option<String> {
        let denied = self.seen.denied_by(&shown.seen)
            || self.read.denied_by(&shown.read)
            || self.state.denied_by(&shown.state)
            || self.archived.denied_by(&false)
            || self.deleted.denied_by(&false)
            || self.title != shown.title
            || self.created_at != shown.created_at;
        denied.then(|| format!("expected {self:?}, listed {shown:?}"))
    }
}
