//! Writers of profiles, within this process: those of one user take turns, and what is costly is computed elsewhere, by a
//! bounded number of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use domain::AppId;
use tokio::sync::OwnedMutexGuard;

use crate::Error;
use crate::database::slots::{Slot, Slots};

type Key = (AppId, String);
type Turns = Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>;

/// Shared by everything that writes profiles. Clones share all of it.
#[derive(Clone, Debug)]
pub(crate) struct Writers {
    turns: Arc<Turns>,
    slots: Slots,
}

/// The only writer of a user's profile in this process, until it is dropped.
#[derive(Debug)]
pub(crate) struct WriterTurn {
    guard: Option<OwnedMutexGuard<()>>,
    key: Key,
    turns: Arc<Turns>,
}

impl Writers {
    /// Half the slots are for one app at most. There are two at least, so that two apps never wait for each other.
    pub(crate) fn new() -> Writers {
        let all = available_parallelism().map_or(2, |cores| cores.get().max(2));
        Writers { turns: Arc::default(), slots: Slots::new(all, all / 2) }
    }

    /// Waits until no other writer of this process is at the user's profile. They are served in the order in which they
    /// came, and none of them holds a connection to the database while it waits.
    pub(crate) async fn turn(&self, app: AppId, identifier: &str) -> WriterTurn {
        let key = (app, identifier.to_owned());
        let mutex = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(key.clone()).or_default())
        };
        // Cleans up whether it gets its turn or stops waiting.
        let mut turn = WriterTurn { guard: None, key, turns: Arc::clone(&self.turns) };
        turn.guard = Some(mutex.lock_owned().await);
        turn
    }

    /// A slot to compute in, for this app.
    pub(crate) async fn slot(&self, app: AppId) -> Slot {
        self.slots.take(app).await
    }

    /// Computes on a thread that may block. The slot is held until the work has ended, also if its caller is gone.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        slot: Slot,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Slot), Error> {
        let computed = tokio::task::spawn_blocking(move || (work(), slot)).await;
        computed.map_err(|_| Error::Unanswered("the change could not be computed"))
    }
}

impl Drop for WriterTurn {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.get(&self.key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn writers_of_one_user_take_turns_and_leave_nothing_behind() {
        let writers = Writers::new();
        let first = writers.turn(AppId(1), "ada").await;
        let mut second = Box::pin(writers.turn(AppId(1), "ada"));
        let mut gone = Box::pin(writers.turn(AppId(1), "ada"));
        assert!(second.as_mut().now_or_never().is_none() && gone.as_mut().now_or_never().is_none());
        assert!(writers.turn(AppId(1), "bob").now_or_never().is_some(), "another user has another turn");
        assert!(writers.turn(AppId(2), "ada").now_or_never().is_some(), "another app has another user");
        drop(gone);
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(writers.turn(AppId(1), "ada").now_or_never().is_none());
        drop(second);
        assert!(writers.turn(AppId(1), "ada").now_or_never().is_some());
        assert!(writers.turns.lock().unwrap().is_empty());
    }
}
