//! Room for calls that take long, such as those to a mail server that answers after minutes.
//!
//! A long call leaves the places of its lane to others, so a slow provider of one app delays no other app. It moves to this room,
//! of which each app has a part. If the part is used up, the call keeps its place in the lane.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;

/// Part of the room that one app may use: a quarter.
const PARTS: usize = 4;

/// Long calls of one lane.
#[derive(Debug)]
pub(crate) struct LongCalls {
    most: Size,
    apps: Mutex<HashMap<AppId, Size>>,
}

/// Number and size of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) jobs: usize,
    pub(crate) bytes: usize,
}

/// A long call. Dropping it releases its place.
#[derive(Debug)]
pub(crate) struct LongCall {
    room: Arc<LongCalls>,
    app: AppId,
    bytes: usize,
}

impl LongCalls {
    pub(crate) fn new(most: Size) -> LongCalls {
        LongCalls { most, apps: Mutex::default() }
    }

    /// Adds the call of a job of this size. Returns None if the app has no place left.
    pub(crate) fn add(room: &Arc<LongCalls>, app: AppId, bytes: usize) -> Option<LongCall> {
        let mut apps = room.apps();
        let total = apps.values().fold(Size::default(), |total, of_app| total.plus(*of_app));
        let of_app = apps.get(&app).copied().unwrap_or_default();
        let one = Size { jobs: 1, bytes };
        if !total.plus(one).is_within(room.most, 1) || !of_app.plus(one).is_within(room.most, PARTS) {
            return None;
        }
        apps.insert(app, of_app.plus(one));
        Some(LongCall { room: Arc::clone(room), app, bytes })
    }

    fn apps(&self) -> MutexGuard<'_, HashMap<AppId, Size>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Size {
    fn plus(self, other: Size) -> Size {
        Size { jobs: self.jobs + other.jobs, bytes: self.bytes + other.bytes }
    }

    /// Returns true if this fits into one of so many parts of `most`.
    fn is_within(self, most: Size, parts: usize) -> bool {
        self.jobs <= most.jobs / parts && self.bytes <= most.bytes / parts
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        let mut apps = self.room.apps();
        if let Some(of_app) = apps.get_mut(&self.app) {
            *of_app = Size { jobs: of_app.jobs - 1, bytes: of_app.bytes - self.bytes };
            if of_app.jobs == 0 {
                apps.remove(&self.app);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_app_gets_a_quarter_of_the_room_and_all_apps_the_whole() {
        let room = Arc::new(LongCalls::new(Size { jobs: 8, bytes: 800 }));
        let add = |app, bytes| LongCalls::add(&room, AppId(app), bytes);
        let mut held = vec![add(1, 1).unwrap(), add(1, 1).unwrap()];
        assert!(add(1, 1).is_none(), "two of eight calls");
        held.push(add(2, 200).unwrap());
        assert!(add(2, 1).is_none(), "200 of 800 bytes");
        for app in 3..8 {
            held.push(add(app, 1).unwrap());
        }
        assert!(add(8, 1).is_none(), "the room is full");
        drop(held);
        assert!(room.apps().is_empty(), "finished calls leave no state");
    }
}
