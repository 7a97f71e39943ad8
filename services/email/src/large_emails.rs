use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::AppId;
use tokio::sync::Notify;

/// An email is large if its attachments have this many bytes or more in total.
const LARGE: u64 = 256 << 10;
/// Total size of the attachments of large emails, in bytes. In memory they take a third more, as base64.
const ROOM: u64 = 70 << 20;

/// Room for large emails. An app gets at most as much as it leaves free, so mail servers of one app that read slowly for minutes
/// delay no other app. Clones share the room.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeEmails(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    used: Mutex<HashMap<AppId, u64>>,
    released: Notify,
}

#[derive(Debug)]
pub(crate) struct LargeEmail {
    room: Arc<Shared>,
    app: AppId,
    bytes: u64,
}

impl LargeEmails {
    /// Waits for room. Returns None at once if the email is not large.
    pub(crate) async fn enter(&self, app: AppId, bytes: u64) -> Option<LargeEmail> {
        if bytes < LARGE {
            return None;
        }
        loop {
            let mut released = pin!(self.0.released.notified());
            released.as_mut().enable();
            if let Some(entered) = self.try_enter(app, bytes) {
                return Some(entered);
            }
            released.await;
        }
    }

    fn try_enter(&self, app: AppId, bytes: u64) -> Option<LargeEmail> {
        let mut used = self.0.used();
        let free = ROOM.saturating_sub(used.values().sum());
        let of_app = used.get(&app).copied().unwrap_or_default() + bytes;
        if of_app > free.saturating_sub(bytes) {
            return None;
        }
        used.insert(app, of_app);
        Some(LargeEmail { room: Arc::clone(&self.0), app, bytes })
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, HashMap<AppId, u64>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LargeEmail {
    fn drop(&mut self) {
        let mut used = self.room.used();
        if let Some(of_app) = used.get_mut(&self.app) {
            *of_app = of_app.saturating_sub(self.bytes);
            if *of_app == 0 {
                used.remove(&self.app);
            }
        }
        drop(used);
        self.room.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    async fn an_app_gets_at_most_as_much_room_as_it_leaves_free() {
        let room = LargeEmails::default();
        let enter = |app, bytes| room.enter(AppId(app), bytes).now_or_never().flatten();
        let held: Vec<_> = (0..3).map(|_| enter(1, 11 * MIB).unwrap()).collect();
        assert!(enter(1, 11 * MIB).is_none(), "the app has 33 of 70 MiB");
        let others = [enter(2, 11 * MIB).unwrap(), enter(3, 11 * MIB).unwrap()];
        let mut waiting = pin!(room.enter(AppId(1), 2 * MIB));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(others);
        assert!(waiting.as_mut().now_or_never().is_some(), "released room is used again");
        drop(held);
        assert!(room.0.used().is_empty(), "sent emails leave no state");
    }

    #[tokio::test]
    async fn small_emails_need_no_room_and_the_largest_fits_if_the_room_is_empty() {
        let room = LargeEmails::default();
        assert!(room.enter(AppId(1), LARGE - 1).await.is_none());
        assert!(room.enter(AppId(1), 15 * MIB).now_or_never().flatten().is_some());
    }
}
