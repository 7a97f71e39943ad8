//! Messages under suspicion: their handling may have ended the process without a record. See
//! `docs/decisions/0065-messages-that-end-processes-are-parked.md`.
//!
//! A suspect is marked in the database before it is handled, and marks that are not withdrawn count the processes that ended meanwhile. A
//! message that has a mark is handled alone among the suspects of its process, so that neighbours are not blamed, and one that has two
//! marks until its handling ends. After three marks, it is parked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::StreamName;
use store::Store;
use store::database::failure::Reader;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

/// Deliveries without suspicion: a process may be killed, or an acknowledgement lost.
const TRUSTED: u64 = 2;
/// After so many ends of processes, the message is parked.
pub(crate) const MAX_ENDS: i32 = 3;
/// Limit of suspects without a mark.
const TOGETHER: u32 = 32;
/// Time for which a suspect waits for others.
const PATIENCE: Duration = Duration::from_secs(20);
/// After this time, a suspect leaves its places to others: a call to a provider may last for minutes.
const IN_PLACE: Duration = Duration::from_secs(30);
/// After this time, a handling counts as lost, and its mark is withdrawn.
const WATCHED: Duration = Duration::from_secs(3600);
/// Pause between tries, and number of tries.
const WITHDRAW_PAUSE: Duration = Duration::from_secs(1);
const WITHDRAW_TRIES: u32 = 600;

/// A suspect that has a mark takes all places.
static ROOM: Semaphore = Semaphore::const_new(TOGETHER as usize);

#[derive(Clone, Debug)]
pub(crate) struct Suspects {
    store: Store,
    reader: Reader,
    watched: Arc<Watched>,
}

/// Watches by sequence of the message. Sending or dropping a value ends its watch.
type Watched = Mutex<HashMap<u64, oneshot::Sender<End>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Handle,
    Later,
    Park,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Recorded,
    Unrecorded,
}

pub(crate) fn is_suspect(deliveries: u64) -> bool {
    deliveries > TRUSTED
}

impl Suspects {
    pub(crate) fn new(store: Store, stream: StreamName) -> Suspects {
        Suspects { store, reader: Reader::consumer(stream), watched: Arc::default() }
    }

    /// Marks a suspect before it is handled. The caller ends the handling with [`end`](Self::end) or [`forget`](Self::forget). After an
    /// error, the message must not be handled.
    pub(crate) async fn begin(&self, seq: u64) -> Result<Verdict, store::Error> {
        if self.watched().contains_key(&seq) {
            return Ok(Verdict::Later);
        }
        let ends = self.store.database().unended_handlings(self.reader, seq).await?;
        if ends >= MAX_ENDS {
            return Ok(Verdict::Park);
        }
        let places = if ends == 0 { 1 } else { TOGETHER };
        let Ok(Ok(permit)) = timeout(PATIENCE, ROOM.acquire_many(places)).await else {
            return Ok(Verdict::Later);
        };
        self.store.database().begin_handling(self.reader, seq).await?;
        if ends > 0 {
            tracing::warn!(
                stream = %self.reader, seq, ends,
                "handling alone a message during whose handling processes ended"
            );
        }
        self.watch(seq, ends, permit);
        Ok(Verdict::Handle)
    }

    /// Records that the process survived the handling. The message may be handled again.
    pub(crate) async fn end(&self, seq: u64) {
        let Some(watch) = self.watched().remove(&seq) else { return };
        let end = match self.store.database().end_handling(self.reader, seq).await {
            Ok(()) => End::Recorded,
            Err(error) => {
                tracing::debug!(stream = %self.reader, seq, %error, "cannot withdraw the mark of a suspect; trying again");
                End::Unrecorded
            }
        };
        watch.send(end).ok();
    }

    pub(crate) fn forget(&self, seq: u64) {
        let watch = self.watched().remove(&seq);
        watch.map(|watch| watch.send(End::Recorded));
    }

    /// If no end of the handling comes at all, withdraws the mark after an hour.
    fn watch(&self, seq: u64, ends: i32, permit: SemaphorePermit<'static>) {
        let (watch, mut ended) = oneshot::channel();
        self.watched().insert(seq, watch);
        let (store, reader, watched) = (self.store.clone(), self.reader, Arc::downgrade(&self.watched));
        let in_place = if ends + 1 < MAX_ENDS { IN_PLACE } else { WATCHED };
        tokio::spawn(async move {
            let mut end = timeout(in_place, &mut ended).await;
            drop(permit);
            if end.is_err() {
                end = timeout(WATCHED, ended).await;
            }
            match end {
                Ok(Ok(End::Unrecorded)) => {}
                // An error means that no handler is left.
                Ok(Ok(End::Recorded) | Err(_)) => return,
                Err(_) => drop(Weak::upgrade(&watched).map(|watched| locked(&watched).remove(&seq))),
            }
            for _ in 0..WITHDRAW_TRIES {
                if store.database().end_handling(reader, seq).await.is_ok() {
                    return;
                }
                tokio::time::sleep(WITHDRAW_PAUSE).await;
            }
        });
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<End>>> {
        locked(&self.watched)
    }
}

fn locked(watched: &Watched) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<End>>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}
