//! Rounds of reports. All feeds report at the same times, so that one statement reads for all of them: at moderate load, each has only a
//! few changes at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use service_kit::Context;
use store::database::batch::Batcher;
use store::inbox::current::CurrentItem;
use store::inbox::projection::ItemKey;
use store::{Error, Store};
use tokio::time::Instant;

/// Time between the beginnings of two rounds. A change after a pause begins a round at once.
const INTERVAL: Duration = Duration::from_millis(8);
/// Time for which feeds can join a round that has begun.
const JOINING: Duration = Duration::from_millis(1);
/// Feeds that one statement reads for.
const MOST: usize = 8;
/// Keys from which a feed reads alone, so that no statement takes long, and feeds with much to report read at once.
const MANY: usize = 500;
const WITHIN: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Rounds {
    store: Store,
    beat: Arc<Beat>,
    reads: Batcher<Vec<ItemKey>, Vec<CurrentItem>>,
}

/// Times of the rounds.
struct Beat {
    created: Instant,
    /// Beginning of the last round, in microseconds after `created`.
    begun: AtomicU64,
}

impl Rounds {
    /// Also starts the task that reads, which lasts as long as a clone of the rounds.
    pub(crate) fn start(context: &Context) -> Rounds {
        let store = context.store.clone();
        let shared = store.clone();
        let (reads, running) = Batcher::gathering(MOST, JOINING, move |of_feeds: Vec<Vec<ItemKey>>| {
            let store = shared.clone();
            async move { Ok(divide(&of_feeds, current_items(&store, &of_feeds.concat()).await?)) }
        });
        context.spawn("realtime reads", async move {
            running.await;
            Ok(())
        });
        Rounds { store, beat: Arc::new(Beat::new()), reads: reads.with_limit(WITHIN) }
    }

    /// Returns the time of the round in which a feed with new changes can take part.
    pub(crate) fn next(&self) -> Instant {
        self.beat.next()
    }

    /// Takes part in the present round, or begins one, and returns the current items and counters in the order of the keys.
    pub(crate) async fn read(&self, keys: Vec<ItemKey>) -> Result<Vec<CurrentItem>, Error> {
        self.beat.begin();
        if keys.len() >= MANY {
            return current_items(&self.store, &keys).await;
        }
        self.reads.call(keys).await
    }
}

impl Beat {
    fn new() -> Beat {
        Beat { created: Instant::now(), begun: AtomicU64::new(0) }
    }

    fn begun(&self) -> Instant {
        self.created + Duration::from_micros(self.begun.load(Ordering::Relaxed))
    }

    fn next(&self) -> Instant {
        let (begun, now) = (self.begun(), Instant::now());
        if now < begun + JOINING { now } else { now.max(begun + INTERVAL) }
    }

    fn begin(&self) {
        let now = Instant::now();
        if now >= self.begun() + INTERVAL {
            let micros = now.duration_since(self.created).as_micros();
            self.begun.store(u64::try_from(micros).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

async fn current_items(store: &Store, keys: &[ItemKey]) -> Result<Vec<CurrentItem>, Error> {
    store.inbox().current_items(keys).await
}

/// Returns the rows of each feed. No two feeds ask for the same user.
fn divide(of_feeds: &[Vec<ItemKey>], rows: Vec<CurrentItem>) -> Vec<Vec<CurrentItem>> {
    let keys = of_feeds.iter().enumerate().flat_map(|(feed, keys)| keys.iter().map(move |key| (*key, feed)));
    let owners: HashMap<ItemKey, usize> = keys.collect();
    let mut answers: Vec<Vec<CurrentItem>> =
        of_feeds.iter().map(|keys| Vec::with_capacity(keys.len())).collect();
    for row in rows {
        if let Some(feed) = owners.get(&row.key) {
            answers[*feed].push(row);
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use domain::inbox::Counts;
    use domain::{AppId, ItemId, UserNumber};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn feeds_join_a_round_that_begins_and_wait_for_the_next_one_later() {
        let beat = Beat::new();
        advance(INTERVAL).await;
        let begun = Instant::now();
        assert_eq!(beat.next(), begun);
        beat.begin();
        advance(JOINING / 2).await;
        assert_eq!(beat.next(), Instant::now());
        beat.begin();
        advance(JOINING).await;
        assert_eq!(beat.next(), begun + INTERVAL);
        advance(INTERVAL * 2).await;
        assert_eq!(beat.next(), Instant::now());
    }

    #[test]
    fn each_feed_gets_its_own_rows_in_order() {
        let key = |user, item| (AppId(1), UserNumber(user), ItemId(item));
        let row = |key| CurrentItem { key, counts: Counts::default(), send: None, item: None };
        let of_feeds = [vec![key(1, 2), key(3, 0)], vec![], vec![key(2, 9), key(2, 5)]];
        let rows = of_feeds.concat().into_iter().map(row).collect();
        let keys = |rows: &Vec<CurrentItem>| rows.iter().map(|row| row.key).collect();
        let divided: Vec<Vec<ItemKey>> = divide(&of_feeds, rows).iter().map(keys).collect();
        assert_eq!(divided, of_feeds);
    }
}
