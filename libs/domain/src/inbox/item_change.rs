use std::collections::HashMap;

use super::{ItemChange, ItemState};
use crate::{AppId, ItemId, Timestamp, UserNumber};

pub type ItemKey = (AppId, UserNumber, ItemId);

#[derive(Clone, Debug)]
pub enum Change {
    Item(ItemChange, Timestamp),
    /// None removes the state.
    AppState(Option<String>),
    Snoozed(Timestamp),
    /// See [`ItemState::end_snooze`].
    SnoozeEnded(Option<Timestamp>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub key: ItemKey,
    pub old: ItemState,
    pub new: ItemState,
}

/// Applies changes to the items in `before`, and returns the items whose state has changed. Changes to other items are ignored.
#[must_use]
pub fn state_changes(before: Vec<(ItemKey, ItemState)>, changes: &[(ItemKey, Change)]) -> Vec<StateChange> {
    let mut after: HashMap<ItemKey, ItemState> = before.iter().cloned().collect();
    for (key, change) in changes {
        match (after.get_mut(key), change) {
            (Some(state), Change::Item(change, at)) => state.apply(*change, *at),
            (Some(state), Change::AppState(app_state)) => state.set_app_state(app_state.clone()),
            (Some(state), Change::Snoozed(until)) => state.snooze(*until),
            (Some(state), Change::SnoozeEnded(due)) => state.end_snooze(*due),
            (None, _) => {}
        }
    }
    let changed = before.into_iter().filter_map(|(key, old)| {
        let new = after.remove(&key).filter(|new| *new != old)?;
        Some(StateChange { key, old, new })
    });
    changed.collect()
}
