//! Slots for the concurrent calls to a provider or to a host, and places for claimed deliveries that wait for a slot.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::pace::AHEAD;

#[derive(Debug)]
pub(crate) struct CallSlots {
    /// A permit for each call.
    calls: Arc<Semaphore>,
    /// A permit for each claim that waits for one of `calls`.
    ahead: Arc<Semaphore>,
}

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
        let [calls, ahead] = [calls, (AHEAD - 1) * calls].map(|permits| Arc::new(Semaphore::new(permits)));
        CallSlots { calls, ahead }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

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
