//! Coordination of the writers of profiles in this process: writers of the same profile run one after another, and a fixed number of slots
//! limits how many expensive computations run at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use domain::AppId;
use tokio::sync::OwnedMutexGuard;

use crate::Error;
use crate::database::slots::{Slot, Slots};

type Key = (AppId, String);
type WriterLocks = Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>;

#[derive(Clone, Debug)]
pub(crate) struct Writers {
    turns: Arc<WriterLocks>,
    slots: Slots,
}

/// Lock on a user's profile, held by at most one writer in this process, until it drops the value.
#[derive(Debug)]
pub(crate) struct WriterLock {
    guard: Option<OwnedMutexGuard<()>>,
    key: Key,
    turns: Arc<WriterLocks>,
}

impl Writers {
    /// Creates one slot per CPU core, but at least two. One app gets at most half of the slots, so that it cannot block all other apps.
    pub(crate) fn new() -> Writers {
        let all = available_parallelism().map_or(2, |cores| cores.get().max(2));
        Writers { turns: Arc::default(), slots: Slots::new(all, all / 2) }
    }

    /// Writers get the lock in the order in which they arrive. Callers must not hold a database connection while they wait.
    pub(crate) async fn turn(&self, app: AppId, identifier: &str) -> WriterLock {
        let key = (app, identifier.to_owned());
        let mutex = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(key.clone()).or_default())
        };
        // Create the value before waiting. Its `Drop` then removes the map entry even if the caller's future is dropped while
        // it waits.
        let mut turn = WriterLock { guard: None, key, turns: Arc::clone(&self.turns) };
        turn.guard = Some(mutex.lock_owned().await);
        turn
    }

    pub(crate) async fn slot(&self, app: AppId) -> Slot {
        self.slots.take(app).await
    }

    /// Runs `work` on a blocking thread. The slot stays in use until `work` ends, even if the caller's future is dropped.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        slot: Slot,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Slot), Error> {
        let computed = tokio::task::spawn_blocking(move || (work(), slot)).await;
        computed.map_err(|_| Error::Unanswered("computing the change panicked or was cancelled"))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.get(&self.key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn writers_of_one_user_take_turns_and_leave_nothing_behind() {
        let writers = Writers::new();
        let first = writers.turn(AppId(1), "ada").await;
        let mut second = Box::pin(writers.turn(AppId(1), "ada"));
        let mut cancelled = Box::pin(writers.turn(AppId(1), "ada"));
        assert!(second.as_mut().now_or_never().is_none() && cancelled.as_mut().now_or_never().is_none());
        assert!(writers.turn(AppId(1), "bob").now_or_never().is_some(), "another user's lock is free");
        assert!(writers.turn(AppId(2), "ada").now_or_never().is_some(), "the lock in another app is free");
        drop(cancelled);
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(writers.turn(AppId(1), "ada").now_or_never().is_none());
        drop(second);
        assert!(writers.turn(AppId(1), "ada").now_or_never().is_some());
        assert!(writers.turns.lock().unwrap().is_empty());
    }
}
