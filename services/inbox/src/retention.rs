//! Removal of inbox items that are too old, or that exceed the maximum number of items of a user.
//!
//! - Old items are deleted from the tables, which also removes the rows of items that users deleted.
//! - Items beyond the maximum are deleted by an event in the log, like items that a user deletes. A replay of the log therefore
//!   deletes the same items.
//!
//! Several processes may do this at once, because removing an item twice is harmless.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::ItemsChanged;
use domain::id::partition;
use domain::inbox::ItemChange;
use domain::{AppId, Envelope, Event, ItemId, StreamName, Timestamp, UserNumber};
use event_log::{EventLog, Message};
use metrics::counter;
use service_kit::fullness::DISPATCHER_STOPS;
use service_kit::metrics::INBOX_REMOVED;
use service_kit::{Context, clock};
use store::Store;
use store::inbox::projection::{INBOX, ItemKey};
use tokio::time::{sleep, timeout};

/// Pause between rounds.
const PAUSE: Duration = Duration::from_secs(60);
/// Maximum duration of a round. The next round continues where a longer round stopped.
const LIMIT: Duration = Duration::from_secs(300);
/// Maximum number of rows that one statement reads or deletes, and of items that one event deletes.
const ROWS: u32 = 1_000;
/// Maximum number of batches of old items in a round.
const BATCHES: u32 = 100;
/// Maximum number of pages of inboxes whose sizes a round checks.
const PAGES: u32 = 20;
/// Number of items beyond the maximum at which a round stops, so that other events of the log do not wait for long.
const SURPLUS: u64 = 20_000;
/// Position before the first inbox.
const START: (AppId, UserNumber) = (AppId(0), UserNumber(0));

/// Number of items that a round removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Rows deleted because of their age, including rows of items that were deleted before.
    pub by_age: u64,
    /// Items for which an event was published because the inbox has too many items.
    pub by_count: u64,
}

/// Removes items in rounds, each of which does a limited amount of work.
pub struct Retention {
    store: Store,
    log: EventLog,
    partitions: u32,
    keep: Duration,
    keep_per_user: u32,
    /// The last inbox whose size was checked.
    checked: (AppId, UserNumber),
    /// For each partition, the sequence of the last published event.
    published: BTreeMap<u32, u64>,
}

/// Runs rounds until the process stops.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut retention = Retention::new(&context);
    loop {
        let round = timeout(LIMIT, retention.round(clock::now()));
        match token.run_until_cancelled(round).await {
            None => return Ok(()),
            Some(Ok(Ok(Removed { by_age: 0, by_count: 0 }))) => {}
            Some(Ok(Ok(Removed { by_age, by_count }))) => {
                tracing::info!(by_age, by_count, "old inbox items removed");
            }
            Some(Ok(Err(error))) => {
                tracing::warn!(error = format!("{error:#}"), "cannot remove old inbox items; trying again");
            }
            Some(Err(_)) => {
                tracing::warn!("removing old inbox items takes long; continuing in the next round");
            }
        }
        if token.run_until_cancelled(sleep(PAUSE)).await.is_none() {
            return Ok(());
        }
    }
}

impl Retention {
    /// Creates a retention with the settings of the section `[inbox]`.
    #[must_use]
    pub fn new(context: &Context) -> Retention {
        Retention {
            store: context.store.clone(),
            log: context.log.clone(),
            partitions: context.partitions,
            keep: context.config.inbox.keep,
            keep_per_user: context.config.inbox.keep_per_user,
            checked: START,
            published: BTreeMap::new(),
        }
    }

    /// Removes items by age, then by count.
    ///
    /// # Errors
    /// Returns an error if a server fails. Items may have been removed before; the next round removes the others.
    pub async fn round(&mut self, now: Timestamp) -> anyhow::Result<Removed> {
        let by_age = self.remove_old(now - self.keep).await.context("by age")?;
        let by_count = self.remove_surplus(now).await.context("by count")?;
        Ok(Removed { by_age, by_count })
    }

    async fn remove_old(&self, before: Timestamp) -> anyhow::Result<u64> {
        let mut removed = 0;
        for _ in 0..BATCHES {
            let keys = self.store.inbox().items_before(before, ROWS).await?;
            let is_last = keys.len() < ROWS as usize;
            let mut batch = 0;
            for (number, keys) in self.by_partition(keys) {
                batch += self.store.inbox().remove_items(StreamName::Inbox(number), before, &keys).await?;
            }
            counter!(INBOX_REMOVED, "cause" => "age").increment(batch);
            removed += batch;
            // A batch without effect would be read again.
            if is_last || batch == 0 {
                break;
            }
        }
        Ok(removed)
    }

    fn by_partition(&self, keys: Vec<ItemKey>) -> BTreeMap<u32, Vec<ItemKey>> {
        let mut partitions: BTreeMap<u32, Vec<ItemKey>> = BTreeMap::new();
        for key in keys {
            partitions.entry(partition(key.0, key.1, self.partitions)).or_default().push(key);
        }
        partitions
    }

    /// Checks the next inboxes, and publishes events that delete the oldest items of those that are too large.
    async fn remove_surplus(&mut self, now: Timestamp) -> anyhow::Result<u64> {
        let mut ready: BTreeMap<u32, bool> = BTreeMap::new();
        let mut removed = 0;
        for _ in 0..PAGES {
            let page = self.store.inbox().inbox_sizes(self.checked, ROWS).await?;
            let is_last = page.len() < ROWS as usize;
            for size in page {
                self.checked = (size.app, size.user);
                if size.total <= i64::from(self.keep_per_user) {
                    continue;
                }
                let number = partition(size.app, size.user, self.partitions);
                let is_ready = match ready.get(&number) {
                    Some(is_ready) => *is_ready,
                    None => self.is_ready(number).await?,
                };
                ready.insert(number, is_ready);
                if is_ready {
                    removed += self.delete_surplus(number, size.app, size.user, now).await?;
                }
                if removed >= SURPLUS {
                    return Ok(removed);
                }
            }
            if is_last {
                self.checked = START;
                break;
            }
        }
        Ok(removed)
    }

    /// Returns false if the projection has not applied the last event of this partition yet, or if its stream is nearly full.
    async fn is_ready(&self, number: u32) -> anyhow::Result<bool> {
        let stream = StreamName::Inbox(number);
        let published = self.published.get(&number).copied().unwrap_or(0);
        let is_applied = self.store.database().checkpoint(INBOX, stream).await? >= published;
        Ok(is_applied && self.log.state(stream).await?.fill < DISPATCHER_STOPS)
    }

    /// Publishes an event that deletes the oldest items of an inbox. Returns the number of items; 0 if the inbox is not too large
    /// any more, or if another process has just published the same event.
    async fn delete_surplus(
        &mut self,
        number: u32,
        app: AppId,
        user: UserNumber,
        now: Timestamp,
    ) -> anyhow::Result<u64> {
        let items = self.store.inbox().surplus_items(app, user, self.keep_per_user, ROWS).await?;
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(0) };
        let count = items.len() as u64;
        let message = Message {
            stream: StreamName::Inbox(number),
            id: Some(format!("surplus {app} {user} {first} {last} {count}")),
            payload: deletion(app, user, items, now)?.into(),
        };
        let ack = self.log.publish(message).await?;
        self.published.insert(number, ack.seq);
        let removed = if ack.duplicate { 0 } else { count };
        counter!(INBOX_REMOVED, "cause" => "count").increment(removed);
        Ok(removed)
    }
}

/// Encodes the event that deletes these items, as if the user had deleted them.
fn deletion(
    app: AppId,
    user: UserNumber,
    items: Vec<ItemId>,
    at: Timestamp,
) -> Result<Vec<u8>, serde_json::Error> {
    let event = Event::InboxItemsChanged(ItemChange::Deleted, ItemsChanged { user, items });
    Envelope { id: clock::new_id(), app, at, send_id: None, caused_by: None, trace: None, event }.encode()
}
