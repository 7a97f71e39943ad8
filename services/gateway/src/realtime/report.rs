//! Reports: what the connections of one user are told, made from changes and the current state of the inbox.

use std::collections::HashMap;
use std::sync::Arc;

use domain::inbox::{AllChange, Counts};
use domain::{AppId, ItemId, UserNumber};
use serde_json::value::RawValue;
use store::inbox::current::{CurrentItem, NO_ITEM};
use store::inbox::projection::ItemKey;

use crate::realtime::connection::Connection;
use crate::realtime::recent::{Change, Entry};
use crate::realtime::update::{self, Changes, Kind, Moment, ResetReason, StreamTag, Update};

pub(crate) type User = (AppId, UserNumber);

/// A report to some connections of a user.
pub(crate) struct Report {
    pub(crate) user: User,
    pub(crate) to: Vec<Arc<Connection>>,
    pub(crate) greeting: Option<Greeting>,
    changes: Vec<(u64, Folded)>,
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
    /// The connection is new.
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
        Report { user, to, greeting, changes: Vec::new() }
    }

    /// Adds a change of the user. Changes of one item are combined, at the place of the last.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let (item, added, changes) = match entry.change {
            Change::Added(item) => (item, true, Changes::default()),
            Change::Changed(item, changes) => (item, false, changes),
            Change::Deleted(item) => (item, false, Changes::default()),
            Change::All(change, up_to) => {
                return self.changes.push((entry.seq, Folded::All { change, up_to }));
            }
            Change::Erased => return,
        };
        let is_same = |(_, folded): &(u64, Folded)| matches!(folded, Folded::Item { item: known, .. } if *known == item);
        let mut folded = Folded::Item { item, added, changes };
        if let Some(place) = self.changes.iter().position(is_same)
            && let (_, Folded::Item { added: before, changes: earlier, .. }) = self.changes.remove(place)
        {
            folded = Folded::Item { item, added: added || before, changes: earlier.and(changes) };
        }
        self.changes.push((entry.seq, folded));
    }

    /// Returns the keys of the rows that the report needs.
    pub(crate) fn keys(&self) -> Vec<ItemKey> {
        let (app, user) = self.user;
        let items = self.changes.iter().filter_map(|(_, folded)| match folded {
            Folded::Item { item, .. } => Some((app, user, *item)),
            Folded::All { .. } => None,
        });
        let mut keys: Vec<ItemKey> = items.collect();
        if keys.is_empty() {
            keys.push((app, user, NO_ITEM));
        }
        keys
    }

    /// Sends the updates to the connections.
    pub(crate) fn send(&self, tag: StreamTag, current: &Current) {
        let counts = current.counts.get(&self.user).copied().unwrap_or_default();
        if let Some(Greeting { at, kind }) = self.greeting {
            let moment = Some(Moment { stream: tag, seq: at });
            if kind != GreetingKind::Found {
                let resumed = kind == GreetingKind::Resumed;
                self.push(&Update { moment, kind: Kind::Ready { counts, resumed } });
            }
            if matches!(kind, GreetingKind::Lost | GreetingKind::Found) {
                self.push(&Update { moment, kind: Kind::Reset(ResetReason::TooOld) });
            }
        }
        let mut changes = self.changes.iter().peekable();
        while let Some(&(seq, folded)) = changes.next() {
            let kind = match folded {
                Folded::All { change, up_to } => Some(Kind::AllChanged { change, up_to, counts }),
                Folded::Item { item, added, changes } => self.of_item(current, item, added, changes, counts),
            };
            // A client that has received a part of the updates of a message must receive all of them again.
            let is_last = changes.peek().is_none_or(|(next, _)| *next > seq);
            let seq = if is_last { seq } else { seq - 1 };
            if let Some(kind) = kind {
                self.push(&Update { moment: Some(Moment { stream: tag, seq }), kind });
            }
        }
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
        match content.clone() {
            Some(content) if added => Some(Kind::Created { item, content, counts }),
            Some(content) => Some(Kind::Updated { item, content, changes, counts }),
            // A repeated event adds no second item of its send.
            None if added && row.send.is_none() => None,
            None => Some(Kind::Deleted { item, send: row.send, counts }),
        }
    }

    fn push(&self, update: &Update) {
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
                let content = update::content(item, row.send);
                content.inspect_err(|error| tracing::error!(%error, "cannot report an inbox item")).ok()
            });
            current.items.insert(row.key, (row, content));
        }
        current
    }
}
