//! Content of the streams, and the inboxes that follow from it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use domain::event::{
    AllItemsChanged, ItemStateSet, ItemsAdded, ItemsChanged, ItemsSnoozed, SnoozesEnded, bundle,
};
use domain::inbox::{AllChange, ItemChange, ItemState};
use domain::{Envelope, Event, ItemId, StreamName, Timestamp};
use event_log::EventLog;
use suite::checkpoint;
use uuid::Uuid;

use crate::record::{Item, Log, Outcome};

const BATCH: usize = 5_000;
const LINGER: Duration = Duration::from_millis(5);

pub(super) async fn read(log: &EventLog, partitions: u32) -> Log {
    let mut read = Log::default();
    for stream in StreamName::all(partitions) {
        let end = if let StreamName::Inbox(partition) = stream {
            let mut replay = Replay { partition, partitions, ..Replay::default() };
            let end = each(log, stream, &mut read, |_, seq, envelope| replay.apply(seq, envelope)).await;
            read.items.extend(replay.rows());
            end
        } else {
            each(log, stream, &mut read, |read, _, envelope| read.take(envelope)).await
        };
        let followed = checkpoint::places(partitions).filter(|(_, followed)| *followed == stream);
        read.ends.extend(followed.map(|(place, _)| (place, i64::try_from(end).unwrap())));
    }
    read
}

/// Counts the messages that were ever published to all streams.
pub(super) async fn written(log: &EventLog, partitions: u32) -> u64 {
    let mut written = 0;
    for stream in StreamName::all(partitions) {
        written += log.state(stream).await.unwrap().last_seq;
    }
    written
}

/// Reads every message of a stream, and returns the stream's last sequence.
async fn each(
    log: &EventLog,
    stream: StreamName,
    read: &mut Log,
    mut take: impl FnMut(&mut Log, u64, Envelope),
) -> u64 {
    let end = log.state(stream).await.unwrap().last_seq;
    let mut reader = log.reader(stream, 0);
    let mut at = 0;
    while at < end {
        for record in reader.next_batch(BATCH, LINGER).await.unwrap() {
            at = record.seq;
            match bundle::decode(&record.payload) {
                Ok(parts) => parts.into_iter().for_each(|part| take(read, record.seq, part.envelope)),
                Err(error) => read.unreadable.push(format!("{stream} {at}: {error}")),
            }
        }
    }
    end
}

impl Log {
    fn take(&mut self, envelope: Envelope) {
        match envelope.event {
            Event::SendAccepted(_) => drop(self.sends.insert(envelope.id)),
            Event::DeliveryJob(job) => {
                self.jobs.insert((job.delivery_id.0, i32::try_from(job.attempt).unwrap()));
            }
            Event::DeliverySettled(settled) => {
                let outcome = Outcome {
                    attempt: i32::try_from(settled.attempt).unwrap(),
                    status: settled.status,
                    reason: settled.reason.map(|reason| reason.to_string()),
                };
                self.outcomes.entry(settled.delivery_id.0).or_default().push(outcome);
            }
            Event::TargetSuppressed(suppressed) => {
                self.suppressed.insert(suppressed.delivery_id.0);
            }
            _ => {}
        }
    }
}

/// Replay of one partition of the inbox from its events, in memory.
#[derive(Default)]
struct Replay {
    partition: u32,
    partitions: u32,
    items: BTreeMap<i64, (Item, ItemState)>,
    /// Item ids by app, user and send.
    of_send: HashMap<(i64, i64, Uuid), i64>,
}

impl Replay {
    fn apply(&mut self, seq: u64, envelope: Envelope) {
        let (app, at) = (envelope.app.0, envelope.at);
        match envelope.event {
            Event::InboxItemsAdded(added) => self.add(app, seq, envelope.send_id.unwrap().0, &added),
            Event::InboxItemsChanged(change, ItemsChanged { user, items }) => {
                for item in items {
                    self.change(app, user.0, item, |state| state.apply(change, at));
                }
            }
            Event::InboxItemStateSet(ItemStateSet { user, item, state }) => {
                self.change(app, user.0, item, |of_item| of_item.set_app_state(state));
            }
            Event::InboxItemsSnoozed(ItemsSnoozed { user, items, until }) => {
                for item in items {
                    self.change(app, user.0, item, |state| state.snooze(until));
                }
            }
            Event::InboxSnoozesEnded(SnoozesEnded { user, items, due }) => {
                for item in items {
                    self.change(app, user.0, item, |state| state.end_snooze(due));
                }
            }
            Event::InboxAllChanged(change, AllItemsChanged { user, up_to }) => {
                let change = match change {
                    AllChange::Seen => ItemChange::Seen,
                    AllChange::Read => ItemChange::Read,
                    AllChange::Deleted => ItemChange::Deleted,
                };
                for (item, state) in self.items.range_mut(..=up_to.0).map(|(_, found)| found) {
                    if (item.app, item.user) == (app, user.0) && !state.is_hidden() {
                        state.apply(change, at);
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, app: i64, seq: u64, send: Uuid, added: &ItemsAdded) {
        for (index, &(user, content)) in (added.first..).zip(&added.recipients) {
            let id = ItemId::derive(seq, self.partition, self.partitions, index).unwrap().0;
            if self.of_send.contains_key(&(app, user.0, send)) {
                continue;
            }
            self.of_send.insert((app, user.0, send), id);
            let title = added.contents[content as usize].title.clone();
            let created_at = added.created_at.millis();
            let item = Item { app, user: user.0, send, created_at, title, ..Item::default() };
            self.items.insert(id, (item, ItemState::default()));
        }
    }

    fn change(&mut self, app: i64, user: i64, id: ItemId, change: impl FnOnce(&mut ItemState)) {
        if let Some((item, state)) = self.items.get_mut(&id.0)
            && (item.app, item.user) == (app, user)
        {
            change(state);
        }
    }

    /// Returns the items in the form of rows of `inbox_item`.
    fn rows(self) -> impl Iterator<Item = (i64, Item)> {
        self.items.into_iter().map(|(id, (item, state))| {
            let title = item.title.filter(|_| state.deleted_at.is_none());
            let row = Item {
                seen_at: state.seen_at.map(Timestamp::millis),
                clicked_at: state.clicked_at.map(Timestamp::millis),
                deleted_at: state.deleted_at.map(Timestamp::millis),
                archived_at: state.archived_at.map(Timestamp::millis),
                snoozed_until: state.snoozed_until.map(Timestamp::millis),
                state: state.app_state,
                title,
                ..item
            };
            (id, row)
        })
    }
}
