//! Removal of inbox items that are too old, or that exceed the maximum of a user. Items beyond the maximum are deleted by an event in the
//! log, so that a replay deletes the same items. Several processes may do this at once, because removing an item twice is harmless.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::ItemsChanged;
use domain::id::partition;
use domain::inbox::ItemChange;
use domain::{AppId, Event, StreamName, Timestamp, UserNumber};
use metrics::counter;
use service_kit::metrics::INBOX_REMOVED;
use service_kit::{Context, clock};
use store::Store;
use store::inbox::projection::ItemKey;
use tokio::time::{sleep, timeout};

use crate::publisher::{Publisher, Ready, UserEvent};

const PAUSE: Duration = Duration::from_secs(60);
/// The next round continues where a longer round stopped.
const LIMIT: Duration = Duration::from_secs(300);
/// Rows that one statement reads or deletes, and items that one event deletes.
const ROWS: u32 = 1_000;
const BATCHES: u32 = 100;
const PAGES: u32 = 20;
/// Surplus items at which a round stops, so that other events of the log do not wait for long.
const SURPLUS: u64 = 20_000;
const START: (AppId, UserNumber) = (AppId(0), UserNumber(0));

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Rows deleted, including those of items that were deleted before.
    pub by_age: u64,
    pub by_count: u64,
}

pub struct Retention {
    store: Store,
    publisher: Publisher,
    partitions: u32,
    keep: Duration,
    keep_per_user: u32,
    checked: (AppId, UserNumber),
}

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
    #[must_use]
    pub fn new(context: &Context) -> Retention {
        Retention {
            store: context.store.clone(),
            publisher: Publisher::new(context),
            partitions: context.partitions,
            keep: context.config.inbox.keep,
            keep_per_user: context.config.inbox.keep_per_user,
            checked: START,
        }
    }

    /// Removes items by age, then by count. After an error, items may have been removed; the next round removes the others.
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

    async fn remove_surplus(&mut self, now: Timestamp) -> anyhow::Result<u64> {
        let mut ready = Ready::default();
        let mut removed = 0;
        for _ in 0..PAGES {
            let page = self.store.inbox().inbox_sizes(self.checked, ROWS).await?;
            let is_last = page.len() < ROWS as usize;
            for size in page {
                self.checked = (size.app, size.user);
                if size.items <= i64::from(self.keep_per_user) {
                    continue;
                }
                if self.publisher.is_ready(&mut ready, size.app, size.user).await {
                    removed += self.delete_surplus(size.app, size.user, now).await?;
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
        ready.failure.map_or(Ok(removed), Err)
    }

    /// Returns 0 if the inbox is not too large any more, or if another process has just published the same event.
    async fn delete_surplus(&mut self, app: AppId, user: UserNumber, now: Timestamp) -> anyhow::Result<u64> {
        let items = self.store.inbox().surplus_items(app, user, self.keep_per_user, ROWS).await?;
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(0) };
        let count = items.len() as u64;
        let id = format!("surplus {app} {user} {first} {last} {count}");
        let event = Event::InboxItemsChanged(ItemChange::Deleted, ItemsChanged { user, items });
        let event = UserEvent { app, user, id, event };
        let mut removed = 0;
        for ack in self.publisher.publish(now, vec![event]).await? {
            removed += if ack?.duplicate { 0 } else { count };
        }
        counter!(INBOX_REMOVED, "cause" => "count").increment(removed);
        Ok(removed)
    }
}
