//! Limit on concurrent expensive work: each app holds at most a given number of slots, and waiting apps get free slots in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;
use tokio::sync::oneshot;

#[derive(Clone, Debug)]
pub struct Slots {
    shared: Arc<SharedSlots>,
}

/// Dropping the value frees the slot.
#[derive(Debug)]
pub struct Slot {
    app: AppId,
    shared: Arc<SharedSlots>,
}

#[derive(Debug)]
struct SharedSlots {
    all: usize,
    per_app: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    held_by: HashMap<AppId, usize>,
    /// In order of arrival.
    waiting: HashMap<AppId, VecDeque<oneshot::Sender<Slot>>>,
    /// The first app that is below its cap gets the next free slot.
    order: VecDeque<AppId>,
}

impl Slots {
    #[must_use]
    pub fn new(all: usize, per_app: usize) -> Slots {
        Slots { shared: Arc::new(SharedSlots { all, per_app, state: Mutex::default() }) }
    }

    /// Free slots go to waiting apps in turn, and within an app in order of arrival. If the future is dropped, the caller loses its place
    /// in the queue.
    pub async fn take(&self, app: AppId) -> Slot {
        let granted = {
            let mut state = self.shared.state();
            if state.has_room(&self.shared, app) && !state.waiting.contains_key(&app) {
                return state.grant(&self.shared, app);
            }
            let (grant, granted) = oneshot::channel();
            if !state.waiting.contains_key(&app) {
                state.order.push_back(app);
            }
            state.waiting.entry(app).or_default().push_back(grant);
            granted
        };
        match granted.await {
            Ok(slot) => slot,
            // Unreachable: the sender stays in the shared state, which `self` keeps alive.
            Err(_) => std::future::pending().await,
        }
    }

    #[must_use]
    pub fn try_take(&self, app: AppId) -> Option<Slot> {
        let mut state = self.shared.state();
        state.has_room(&self.shared, app).then(|| state.grant(&self.shared, app))
    }
}

impl SharedSlots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, shared: &SharedSlots, app: AppId) -> bool {
        self.held < shared.all && self.held_by.get(&app).copied().unwrap_or_default() < shared.per_app
    }

    fn grant(&mut self, shared: &Arc<SharedSlots>, app: AppId) -> Slot {
        self.held += 1;
        *self.held_by.entry(app).or_default() += 1;
        Slot { app, shared: Arc::clone(shared) }
    }

    fn release(&mut self, app: AppId) {
        self.held = self.held.saturating_sub(1);
        if let Some(held) = self.held_by.get_mut(&app) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held_by.remove(&app);
            }
        }
    }

    fn next(&mut self, shared: &SharedSlots) -> Option<(AppId, oneshot::Sender<Slot>)> {
        let place = self.order.iter().position(|app| self.has_room(shared, *app))?;
        let app = self.order.remove(place)?;
        let waiting = self.waiting.get_mut(&app)?;
        let caller = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&app);
        } else {
            self.order.push_back(app);
        }
        Some((app, caller?))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut granted = Vec::new();
        {
            let mut state = self.shared.state();
            state.release(self.app);
            while let Some((app, caller)) = state.next(&self.shared) {
                if !caller.is_closed() {
                    granted.push((caller, state.grant(&self.shared, app)));
                }
            }
        }
        for (caller, slot) in granted {
            // If the caller has stopped waiting, `send` returns the slot. Dropping the slot frees it.
            drop(caller.send(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ONE: AppId = AppId(1);
    const OTHER: AppId = AppId(2);

    #[tokio::test]
    async fn one_app_cannot_hold_all_slots() {
        let slots = Slots::new(3, 2);
        let held = [slots.take(ONE).await, slots.take(ONE).await];
        assert!(slots.try_take(ONE).is_none());
        let other = slots.take(OTHER).now_or_never().unwrap();
        assert!(slots.try_take(OTHER).is_none(), "all slots are in use");
        drop(held);
        drop(other);
        assert!(slots.try_take(OTHER).is_some());
    }

    #[tokio::test]
    async fn waiting_apps_are_served_in_turn() {
        let slots = Slots::new(1, 1);
        let held = slots.take(ONE).await;
        let mut waiting: Vec<_> = [ONE, ONE, ONE, OTHER].map(|app| Box::pin(slots.take(app))).into();
        for caller in &mut waiting {
            assert!(caller.as_mut().now_or_never().is_none());
        }
        let mut other = waiting.pop().unwrap();
        drop(held);
        let first = waiting.remove(0).now_or_never().unwrap();
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(
            waiting[0].as_mut().now_or_never().is_none(),
            "the other app is served before this app's second caller"
        );
        drop(other.now_or_never().unwrap());
        assert!(waiting.remove(0).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_caller_that_stops_waiting_takes_no_slot() {
        let slots = Slots::new(1, 1);
        let held = slots.take(ONE).await;
        let mut cancelled = Box::pin(slots.take(ONE));
        let mut next = Box::pin(slots.take(OTHER));
        assert!(cancelled.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
        drop(cancelled);
        drop(held);
        assert!(next.now_or_never().is_some());
        assert!(slots.try_take(ONE).is_some(), "all slots are free again");
    }
}
