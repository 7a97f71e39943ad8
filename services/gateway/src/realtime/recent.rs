//! Recent changes of a partition, from which clients resume after an interruption.

use std::collections::{HashMap, VecDeque};

use domain::event::{
    AllItemsChanged, ItemStateSet, ItemsAdded, ItemsChanged, ItemsSnoozed, SnoozesEnded, UserErased,
};
use domain::inbox::{AllChange, ItemChange};
use domain::{AppId, Envelope, Event, ItemId, UserNumber};
use tokio::time::{Duration, Instant};

use crate::realtime::update::Changes;

/// Maximum number of changes that are kept after they were reported. They use about 3 MiB.
const MOST: usize = 65_536;
const KEPT_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The item was added to the list, or returned to it.
    Added(ItemId),
    Changed(ItemId, Changes),
    Deleted(ItemId),
    All(AllChange, ItemId),
    Erased,
}

/// A change, with its user and the sequence of its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) app: AppId,
    pub(crate) user: UserNumber,
    pub(crate) change: Change,
}

/// The changes of a partition since [`start`](Self::start), in the order of the stream.
#[derive(Debug)]
pub(crate) struct Recent {
    partition: u32,
    partitions: u32,
    entries: VecDeque<Entry>,
    /// The times at which sequences were read, oldest first. A second has one entry.
    read_at: VecDeque<(Instant, u64)>,
    /// All changes after this sequence are present.
    start: u64,
    /// Last sequence read.
    end: u64,
    /// Sequences of messages that this release cannot read.
    unknown: VecDeque<u64>,
    /// Users that were erased recently, and when their erasure was read. Their numbers are never used again.
    erased: HashMap<(AppId, UserNumber), Instant>,
}

impl Recent {
    /// Creates an empty list that begins after the sequence `start`.
    pub(crate) fn new(partition: u32, partitions: u32, start: u64) -> Recent {
        Recent {
            partition,
            partitions,
            entries: VecDeque::new(),
            read_at: VecDeque::new(),
            start,
            end: start,
            unknown: VecDeque::new(),
            erased: HashMap::new(),
        }
    }

    /// All changes after this sequence are present.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Last sequence read.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds the changes of an event. Events of other types change no inbox.
    pub(crate) fn add(&mut self, seq: u64, envelope: &Envelope) {
        let app = envelope.app;
        let mut push = |user, change| self.entries.push_back(Entry { seq, app, user, change });
        match &envelope.event {
            Event::InboxItemsAdded(ItemsAdded { first, recipients, .. }) => {
                for (index, &(user, _)) in (*first..).zip(recipients) {
                    if let Some(item) = ItemId::derive(seq, self.partition, self.partitions, index) {
                        push(user, Change::Added(item));
                    }
                }
            }
            Event::InboxItemsChanged(change, ItemsChanged { user, items }) => {
                for &item in items {
                    push(
                        *user,
                        match change {
                            ItemChange::Deleted => Change::Deleted(item),
                            ItemChange::Unarchived => Change::Added(item),
                            change => Change::Changed(item, Changes::of(*change)),
                        },
                    );
                }
            }
            Event::InboxItemStateSet(ItemStateSet { user, item, .. }) => {
                push(*user, Change::Changed(*item, Changes { state: true, ..Changes::default() }));
            }
            Event::InboxItemsSnoozed(ItemsSnoozed { user, items, .. }) => {
                let hidden = Changes { hidden: true, ..Changes::default() };
                items.iter().for_each(|&item| push(*user, Change::Changed(item, hidden)));
            }
            Event::InboxSnoozesEnded(SnoozesEnded { user, items, .. }) => {
                items.iter().for_each(|&item| push(*user, Change::Added(item)));
            }
            &Event::InboxAllChanged(change, AllItemsChanged { user, up_to }) => {
                push(user, Change::All(change, up_to));
            }
            &Event::UserErased(UserErased { user, .. }) => {
                push(user, Change::Erased);
                self.erased.insert((app, user), Instant::now());
            }
            _ => {}
        }
    }

    /// Returns true if the user was erased recently.
    pub(crate) fn is_erased(&self, user: (AppId, UserNumber)) -> bool {
        self.erased.contains_key(&user)
    }

    /// Notes a message that this release cannot read.
    pub(crate) fn add_unknown(&mut self, seq: u64) {
        self.unknown.push_back(seq);
    }

    /// Returns true if a message after the sequence `after`, up to and including `until`, could not be read.
    pub(crate) fn has_unknown(&self, after: u64, until: u64) -> bool {
        self.unknown.iter().any(|seq| *seq > after && *seq <= until)
    }

    /// Returns true if further changes fit into memory, beside those after the sequence `reported`.
    pub(crate) fn has_room(&self, reported: u64) -> bool {
        let first = self.entries.partition_point(|entry| entry.seq <= reported);
        self.entries.len() - first < MOST / 2 && self.unknown.len() < MOST / 2
    }

    /// Returns about the time at which the first sequence after `seq` was read; None if it was not read yet.
    pub(crate) fn read_after(&self, seq: u64) -> Option<Instant> {
        let later = || self.read_at.iter().find(|(_, read)| *read > seq).or(self.read_at.back());
        (self.end > seq).then(later).flatten().map(|(at, _)| *at)
    }

    /// Records that all messages up to `seq` were read, and forgets old changes. Changes after the sequence `reported` are kept.
    pub(crate) fn read_up_to(&mut self, seq: u64, reported: u64, now: Instant) {
        self.end = self.end.max(seq);
        if self.read_at.back().is_none_or(|(at, _)| now.duration_since(*at) >= Duration::from_secs(1)) {
            self.read_at.push_back((now, seq));
        }
        while let Some(&(at, seq)) = self.read_at.front()
            && now.duration_since(at) > KEPT_FOR
        {
            self.read_at.pop_front();
            self.forget_up_to(seq.min(reported));
        }
        self.erased.retain(|_, read_at| now.duration_since(*read_at) <= KEPT_FOR);
        if self.entries.len() > MOST {
            let surplus = self.entries.len() - MOST;
            let seq = self.entries[surplus - 1].seq;
            self.forget_up_to(seq.min(reported));
        }
    }

    fn forget_up_to(&mut self, seq: u64) {
        while self.entries.front().is_some_and(|entry| entry.seq <= seq) {
            self.entries.pop_front();
        }
        while self.unknown.front().is_some_and(|unknown| *unknown <= seq) {
            self.unknown.pop_front();
        }
        self.start = self.start.max(seq);
    }

    /// Returns the changes after the sequence `after`, up to and including `until`.
    pub(crate) fn between(&self, after: u64, until: u64) -> impl Iterator<Item = &Entry> {
        let begin = self.entries.partition_point(|entry| entry.seq <= after);
        self.entries.range(begin..).take_while(move |entry| entry.seq <= until)
    }
}

#[cfg(test)]
mod tests {
    use domain::event::ItemsChanged;
    use domain::{AppId, Event, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn seen(user: i64, items: &[i64]) -> Envelope {
        let items = items.iter().map(|&item| ItemId(item)).collect();
        Envelope {
            id: Uuid::nil(),
            app: AppId(1),
            at: Timestamp::from_millis(0),
            send_id: None,
            caused_by: None,
            trace: None,
            event: Event::InboxItemsChanged(ItemChange::Seen, ItemsChanged { user: UserNumber(user), items }),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_kept_by_time_and_number_and_the_start_says_from_where() {
        let mut recent = Recent::new(0, 1, 10);
        let begin = Instant::now();
        for seq in 11..=20 {
            recent.add(seq, &seen(1, &[1, 2]));
            recent.read_up_to(seq, seq, begin + Duration::from_secs(seq * 10));
        }
        assert_eq!((recent.start(), recent.end(), recent.between(10, 15).count()), (10, 20, 10));
        recent.read_up_to(30, 30, begin + Duration::from_secs(130) + KEPT_FOR);
        assert_eq!((recent.start(), recent.end()), (12, 30));
        assert_eq!(recent.between(0, 30).map(|entry| entry.seq).min(), Some(13));

        let many: Vec<i64> = (0..1_000).collect();
        for seq in 31..=100 {
            recent.add(seq, &seen(1, &many));
            recent.read_up_to(seq, 33, begin + Duration::from_secs(500));
        }
        let kept = (recent.start(), recent.between(0, 100).count());
        assert_eq!(kept, (33, 67_000), "changes that were not reported are kept");
        assert!(!recent.has_room(33) && recent.has_room(90));
        (101..=101 + MOST as u64 / 2).for_each(|seq| recent.add_unknown(seq));
        assert!(!recent.has_room(90), "messages that cannot be read need room too");
        assert!(recent.has_unknown(100, 101) && !recent.has_unknown(90, 100));
        recent.read_up_to(101, 90, begin + Duration::from_secs(501));
        let kept = (recent.start(), recent.between(0, 100).count());
        assert_eq!(kept, (35, 65_000), "a message is never divided");
    }
}
