//! Slots for the concurrent calls to a provider or to a host, and places for claimed deliveries that wait for a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::pace::AHEAD;

/// Minimum pause of a delivery before it is retried because every slot is in use and at least one call is long.
const STUCK_PAUSE: Duration = Duration::from_secs(1);
/// Maximum length of this pause. It grows with the number of deliveries that found no slot.
const LONGEST_STUCK_PAUSE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct CallSlots {
    most: usize,
    /// A permit for each call.
    calls: Arc<Semaphore>,
    /// A permit for each claim that waits for one of `calls`.
    ahead: Arc<Semaphore>,
    /// Number of calls that take long.
    long: Arc<AtomicUsize>,
    /// Number of deliveries that were refused since a slot was last free.
    turned_away: AtomicUsize,
}

/// A call that takes long, until it is dropped.
#[derive(Debug)]
pub(crate) struct LongSlot(Arc<AtomicUsize>);

/// A slot for a call, or a place to wait for one. Dropping it releases it.
#[derive(Debug)]
pub(crate) enum CallSlot {
    /// The call may start.
    Now { _call: OwnedSemaphorePermit },
    /// The call may start after [`CallSlot::start`]. Meanwhile the delivery is claimed.
    Later { calls: Arc<Semaphore>, _ahead: OwnedSemaphorePermit },
}

impl CallSlots {
    /// Creates slots for so many concurrent calls.
    pub(crate) fn new(calls: usize) -> CallSlots {
        let most = calls;
        let [calls, ahead] = [calls, (AHEAD - 1) * calls].map(|permits| Arc::new(Semaphore::new(permits)));
        CallSlots { most, calls, ahead, long: Arc::default(), turned_away: AtomicUsize::new(0) }
    }

    /// Counts a call that takes long.
    pub(crate) fn become_long(&self) -> LongSlot {
        self.long.fetch_add(1, Ordering::Relaxed);
        LongSlot(Arc::clone(&self.long))
    }

    /// If every slot is in use and at least one call takes long, counts a delivery that is refused, and returns its pause.
    pub(crate) fn turn_away_if_stuck(&self) -> Option<Duration> {
        if self.calls.available_permits() > 0 || self.long.load(Ordering::Relaxed) == 0 {
            self.turned_away.store(0, Ordering::Relaxed);
            return None;
        }
        let rounds = self.turned_away.fetch_add(1, Ordering::Relaxed) / self.most + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Some(STUCK_PAUSE.saturating_mul(rounds).min(LONGEST_STUCK_PAUSE))
    }

    /// Waits for a slot. With `may_claim_ahead`, takes a slot that is free now, or waits for a place to claim ahead of the call: slots
    /// that become free then go to claimed deliveries.
    pub(crate) async fn reserve(&self, may_claim_ahead: bool) -> Option<CallSlot> {
        let now = |call| CallSlot::Now { _call: call };
        if !may_claim_ahead {
            return Arc::clone(&self.calls).acquire_owned().await.ok().map(now);
        }
        match Arc::clone(&self.calls).try_acquire_owned() {
            Ok(call) => Some(now(call)),
            Err(_) => self.reserve_ahead().await,
        }
    }

    /// Waits for a place to claim ahead of the call.
    pub(crate) async fn reserve_ahead(&self) -> Option<CallSlot> {
        let ahead = Arc::clone(&self.ahead).acquire_owned().await.ok()?;
        Some(CallSlot::Later { calls: Arc::clone(&self.calls), _ahead: ahead })
    }
}

impl CallSlot {
    pub(crate) fn is_ahead(&self) -> bool {
        matches!(self, CallSlot::Later { .. })
    }

    /// Waits until the call may start, at most until `latest`. Returns false if it may not.
    pub(crate) async fn start(&mut self, latest: Instant) -> bool {
        if let CallSlot::Later { calls, .. } = self {
            let Ok(Ok(call)) = timeout_at(latest, Arc::clone(calls).acquire_owned()).await else {
                return false;
            };
            *self = CallSlot::Now { _call: call };
        }
        true
    }
}

impl Drop for LongSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_delivery_waits_for_a_slot_while_calls_take_long_and_pauses_grow() {
        let slots = CallSlots::new(2);
        let mut held = vec![slots.reserve(false).await, slots.reserve(false).await];
        assert_eq!(slots.turn_away_if_stuck(), None, "the calls may end soon");
        let long = slots.become_long();
        let pauses: Vec<_> = (0..400).filter_map(|_| slots.turn_away_if_stuck()).collect();
        assert_eq!(pauses[..3], [STUCK_PAUSE, STUCK_PAUSE, STUCK_PAUSE * 2]);
        assert!(pauses.is_sorted() && pauses[399] == LONGEST_STUCK_PAUSE);
        held.pop();
        assert_eq!(slots.turn_away_if_stuck(), None, "a slot is free");
        held.push(slots.reserve(false).await);
        assert_eq!(slots.turn_away_if_stuck(), Some(STUCK_PAUSE));
        drop(long);
        assert_eq!(slots.turn_away_if_stuck(), None);
    }

    #[tokio::test]
    async fn a_claimed_delivery_gets_a_free_slot_before_those_that_wait_for_their_claim() {
        let slots = CallSlots::new(1);
        let call = slots.reserve(true).await.unwrap();
        let mut claimed = Vec::new();
        while let Some(Some(slot)) = slots.reserve(true).now_or_never() {
            claimed.push(slot);
        }
        assert_eq!(claimed.len(), AHEAD - 1);
        let mut unclaimed = Box::pin(slots.reserve(true));
        assert!(unclaimed.as_mut().now_or_never().is_none());
        drop(call);
        assert!(unclaimed.as_mut().now_or_never().is_none());
        assert!(claimed[0].start(Instant::now()).await);
        assert!(unclaimed.await.unwrap().is_ahead(), "the first claim has left its place");
    }
}
