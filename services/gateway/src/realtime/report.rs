//! Reports: the updates for the connections of one user, made from changes and the current state of the inbox.

use std::collections::HashMap;
use std::sync::Arc;

use domain::inbox::{AllChange, Counts};
use domain::{AppId, ItemId, UserNumber};
use serde_json::value::RawValue;
use store::inbox::current::{CurrentItem, NO_ITEM};
use store::inbox::projection::ItemKey;

use crate::inbox::bulk::MAX_IDS;
use crate::realtime::connection::{Connection, count_reset};
use crate::realtime::recent::{Change, Entry};
use crate::realtime::update::{self, Changes, DeleteReason, Kind, Moment, ResetReason, StreamTag, Update};

/// Maximum number of changes in a report. A client's queue has room for more.
const MOST_CHANGES: usize = MAX_IDS;

pub(crate) type User = (AppId, UserNumber);

/// A report to some connections of a user.
pub(crate) struct Report {
    pub(crate) user: User,
    pub(crate) to: Vec<Arc<Connection>>,
    pub(crate) greeting: Option<Greeting>,
    changes: Vec<FoldedChange>,
    /// True if there were too many changes. The clients then fetch their items again.
    is_reset: bool,
}

/// Changes that one update reports, with the sequences of the first and the last.
#[derive(Clone, Copy, Debug)]
struct FoldedChange {
    first: u64,
    last: u64,
    folded: Folded,
}

/// The first updates of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    /// Position at which the connection starts.
    pub(crate) at: u64,
    pub(crate) kind: GreetingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GreetingKind {
    Fresh,
    /// The connection continues an earlier one.
    Resumed,
    /// The connection cannot continue the earlier one.
    Lost,
    /// The user exists now. The connection was greeted before.
    Found,
}

/// All changes of an item in a report, or a change of all items.
#[derive(Clone, Copy, Debug)]
enum Folded {
    Item { item: ItemId, added: bool, changes: Changes },
    All { change: AllChange, up_to: ItemId },
}

/// Current items and counters of the users of some reports.
#[derive(Default)]
pub(crate) struct Current {
    items: HashMap<ItemKey, (CurrentItem, Option<Arc<RawValue>>)>,
    counts: HashMap<User, Counts>,
}

impl Report {
    pub(crate) fn new(user: User, to: Vec<Arc<Connection>>, greeting: Option<Greeting>) -> Report {
        Report { user, to, greeting, changes: Vec::new(), is_reset: false }
    }

    /// Adds a change of the user, and returns true if it needs another row. Changes of one item are combined, at the place of the
    /// last. A report with too many changes becomes a reset.
    pub(crate) fn add(&mut self, entry: &Entry) -> bool {
        let (item, added, changes) = match entry.change {
            Change::Added(item) => (item, true, Changes::default()),
            Change::Changed(item, changes) => (item, false, changes),
            Change::Deleted(item) => (item, false, Changes::default()),
            Change::All(change, up_to) => {
                return self.push(entry.seq, entry.seq, Folded::All { change, up_to });
            }
            Change::Erased => return false,
        };
        let is_same =
            |one: &FoldedChange| matches!(one.folded, Folded::Item { item: known, .. } if known == item);
        let earlier = self.changes.iter().position(is_same).map(|place| self.changes.remove(place));
        if let Some(FoldedChange {
            first,
            folded: Folded::Item { added: before, changes: earlier, .. },
            ..
        }) = earlier
        {
            let changes = earlier.and(changes);
            self.push(first, entry.seq, Folded::Item { item, added: added || before, changes });
            return false;
        }
        self.push(entry.seq, entry.seq, Folded::Item { item, added, changes })
    }

    fn push(&mut self, first: u64, last: u64, folded: Folded) -> bool {
        if self.is_reset || self.changes.len() >= MOST_CHANGES {
            self.is_reset = true;
            self.changes.clear();
            return false;
        }
        self.changes.push(FoldedChange { first, last, folded });
        true
    }

    /// Returns the keys of the rows that the report needs.
    pub(crate) fn keys(&self) -> Vec<ItemKey> {
        let (app, user) = self.user;
        let items = self.changes.iter().filter_map(|change| match change.folded {
            Folded::Item { item, .. } => Some((app, user, item)),
            Folded::All { .. } => None,
        });
        let mut keys: Vec<ItemKey> = items.collect();
        if keys.is_empty() {
            keys.push((app, user, NO_ITEM));
        }
        keys
    }

    pub(crate) fn send(&self, tag: StreamTag, current: &Current) {
        let counts = current.counts.get(&self.user).copied().unwrap_or_default();
        if let Some(Greeting { at, kind }) = self.greeting {
            let moment = Some(Moment { stream: tag, seq: at });
            if kind != GreetingKind::Found {
                let resumed = kind == GreetingKind::Resumed;
                self.send_update(&Update { moment, kind: Kind::Ready { counts, resumed } });
            }
            if matches!(kind, GreetingKind::Lost | GreetingKind::Found) {
                self.reset(moment);
            }
        }
        if self.is_reset {
            self.reset(None);
        }
        for (change, seq) in self.changes.iter().zip(self.positions()) {
            let kind = match change.folded {
                Folded::All { change, up_to } => Some(Kind::AllChanged { change, up_to, counts }),
                Folded::Item { item, added, changes } => self.of_item(current, item, added, changes, counts),
            };
            if let Some(kind) = kind {
                self.send_update(&Update { moment: Some(Moment { stream: tag, seq }), kind });
            }
        }
    }

    /// Returns the position of each update. A client that has received an update, but not the next ones, must receive all changes of
    /// the next ones again.
    fn positions(&self) -> Vec<u64> {
        let mut before_next = u64::MAX;
        let position = |change: &FoldedChange| {
            let position = change.last.min(before_next);
            before_next = before_next.min(change.first.saturating_sub(1));
            position
        };
        let mut positions: Vec<u64> = self.changes.iter().rev().map(position).collect();
        positions.reverse();
        positions
    }

    fn reset(&self, moment: Option<Moment>) {
        count_reset(ResetReason::TooOld);
        self.send_update(&Update { moment, kind: Kind::Reset(ResetReason::TooOld) });
    }

    /// Returns the update of an item; None if the item never existed.
    fn of_item(
        &self,
        current: &Current,
        item: ItemId,
        added: bool,
        changes: Changes,
        counts: Counts,
    ) -> Option<Kind> {
        let (row, content) = current.items.get(&(self.user.0, self.user.1, item))?;
        let leaves = |reason| Some(Kind::Deleted { item, send: row.send, reason, counts });
        if let Some(state) = row.item.as_ref().map(|item| &item.state).filter(|state| state.is_hidden()) {
            let reason =
                if state.archived_at.is_some() { DeleteReason::Archived } else { DeleteReason::Snoozed };
            // The client does not show the item, unless it was hidden just now.
            return if changes.hidden || added { leaves(reason) } else { None };
        }
        match content.clone() {
            // The content cannot be written, which is logged.
            None if row.item.is_some() => None,
            Some(content) if added => Some(Kind::Created { item, content, counts }),
            Some(content) => Some(Kind::Updated { item, content, changes, counts }),
            // A repeated event adds no second item of its send.
            None if added && row.send.is_none() => None,
            None => leaves(DeleteReason::Deleted),
        }
    }

    fn send_update(&self, update: &Update) {
        self.to.iter().for_each(|connection| connection.push(update.clone()));
    }
}

impl Current {
    /// Collects the rows, and writes each item as JSON once.
    pub(crate) fn of(rows: Vec<CurrentItem>) -> Current {
        let mut current = Current::default();
        for row in rows {
            let (app, user, _) = row.key;
            current.counts.insert((app, user), row.counts);
            let content = row.item.as_ref().and_then(|item| {
                let content = update::content(item);
                content.inspect_err(|error| tracing::error!(%error, "cannot report an inbox item")).ok()
            });
            current.items.insert(row.key, (row, content));
        }
        current
    }
}
