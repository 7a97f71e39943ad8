//! Load during upgrades, with a journal of the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use suite::numbered_send::title;
use suite::retrying_client::{Call, RetryingClient};
use suite::{Person, pace};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::audience::{PEOPLE, body};

const SENDERS: usize = 4;
const READERS: usize = 2;
/// Pause of a sender between two sends.
const SEND_PACE: Duration = Duration::from_millis(250);
/// Pause of a reader between two visits to an inbox.
const READ_PACE: Duration = Duration::from_millis(100);
/// Maximum number of sends between two calls of `await_sends`, so that a busy machine can keep up.
const MOST_SENDS: usize = 30;

/// Load that runs until it is stopped.
pub(crate) struct Load {
    client: RetryingClient,
    ending: Arc<AtomicBool>,
    /// A permit for each send that may still be made.
    allowed: Arc<Semaphore>,
    confirmed: watch::Receiver<usize>,
    senders: JoinSet<Vec<(usize, String)>>,
    readers: JoinSet<BTreeSet<String>>,
}

/// Answers that the clients received.
pub(crate) struct Journal {
    /// Request id of every send that was answered with 202, by the number of the send.
    pub(crate) sends: BTreeMap<usize, String>,
    /// Notifications that were marked as read.
    pub(crate) read: BTreeSet<String>,
}

impl Load {
    /// Starts the senders and readers.
    pub(crate) fn begin(client: &RetryingClient) -> Load {
        let (confirm, confirmed) = watch::channel(0);
        let allowed = Arc::new(Semaphore::new(0));
        let (ending, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (mut senders, mut readers) = (JoinSet::new(), JoinSet::new());
        for number in 0..SENDERS {
            senders.spawn(send(
                client.clone(),
                number,
                Arc::clone(&next),
                Arc::clone(&allowed),
                confirm.clone(),
            ));
        }
        for number in 0..READERS {
            readers.spawn(read(client.clone(), number, Arc::clone(&ending)));
        }
        Load { client: client.clone(), ending, allowed, confirmed, senders, readers }
    }

    /// Waits until `further` more sends are confirmed. After that the load continues, up to [`MOST_SENDS`] sends.
    pub(crate) async fn await_sends(&mut self, further: usize) {
        self.allowed.add_permits(MOST_SENDS.saturating_sub(self.allowed.available_permits()));
        let wanted = *self.confirmed.borrow() + further;
        while *self.confirmed.borrow_and_update() < wanted {
            tokio::select! {
                changed = self.confirmed.changed() => changed.unwrap(),
                // End the test at once if a client fails.
                Some(ended) = self.senders.join_next() => panic!("a sender ended: {ended:?}"),
                Some(ended) = self.readers.join_next() => panic!("a reader ended: {ended:?}"),
            }
        }
    }

    pub(crate) async fn end(self) -> Journal {
        self.ending.store(true, Ordering::Relaxed);
        self.allowed.close();
        let sends = self.senders.join_all().await.into_iter().flatten().collect();
        let read = self.readers.join_all().await.into_iter().flatten().collect();
        println!("calls by their number of tries: {:?}", self.client.tries());
        Journal { sends, read }
    }
}

async fn send(
    client: RetryingClient,
    number: usize,
    next: Arc<AtomicUsize>,
    allowed: Arc<Semaphore>,
    confirmed: watch::Sender<usize>,
) -> Vec<(usize, String)> {
    let (mut promised, mut pace) = (Vec::new(), pace(SEND_PACE));
    while let Ok(one) = allowed.acquire().await {
        one.forget();
        pace.tick().await;
        let send = next.fetch_add(1, Ordering::Relaxed);
        let content = body(send);
        let key = title(send);
        let call = Call {
            method: "POST",
            path: "/v3/notifications",
            user: None,
            idempotency_key: Some(&key),
            body: Some(&content),
        };
        let (status, answer) = client.call(number, call).await;
        assert_eq!(status, 202, "{answer}");
        promised.push((send, answer["requestId"].as_str().unwrap().to_owned()));
        confirmed.send_modify(|count| *count += 1);
    }
    promised
}

/// Visits one inbox after the other, and marks new items as read. Once a list no longer shows such an item as unread,
/// later lists must not show it as unread either.
async fn read(client: RetryingClient, number: usize, ending: Arc<AtomicBool>) -> BTreeSet<String> {
    let (mut marked, mut known, mut pace) = (BTreeSet::new(), BTreeSet::new(), pace(READ_PACE));
    for visit in 0.. {
        if ending.load(Ordering::Relaxed) {
            break;
        }
        pace.tick().await;
        // Readers never visit the same inbox at the same time.
        let user = Person((visit * READERS + number) % PEOPLE).identifier();
        let user = Some(user.as_str());
        let get = |path| Call { method: "GET", path, user, idempotency_key: None, body: None };
        let (status, page) = client.call(visit, get("/v3/notifications?filter=unread&limit=20")).await;
        assert_eq!(status, 200, "{page}");
        let Some(newest) = page["data"].as_array().unwrap().first() else { continue };
        let id = newest["id"].as_str().map_or_else(|| newest["id"].to_string(), str::to_owned);
        assert!(!known.contains(&id), "{id} was marked as read, but is listed as unread");
        let path = format!("/v3/notifications/{id}/reads");
        let (status, answer) = client.call(visit + 1, Call { method: "PUT", ..get(&path) }).await;
        // 202: the change is stored, but not visible yet.
        assert!(status == 200 || status == 202, "{status}: {answer}");
        let (_, page) = client.call(visit, get("/v3/notifications?filter=unread&limit=20")).await;
        let is_unread = page["data"].as_array().unwrap().iter().any(|item| item["id"] == newest["id"]);
        assert!(status == 202 || !is_unread, "{id} is still listed as unread: {page}");
        if !is_unread {
            known.insert(id.clone());
        }
        marked.insert(id);
    }
    marked
}
