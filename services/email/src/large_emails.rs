use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{AppId, SendId};
use tokio::sync::Notify;

/// An email is large if its attachments have this many bytes or more in total.
const LARGE: u64 = 256 << 10;
/// Total size of the attachments of large emails, in bytes. In memory they take a third more, as base64.
const ROOM: u64 = 70 << 20;

/// Room for the files of large emails. The emails of a send share its files, so they take up room once. An app gets at most as much room as
/// it leaves free, so mail servers of one app that read slowly for minutes delay no other app. Clones share the room.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeEmails(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Number of emails that are sent with these files.
    used: Mutex<HashMap<Files, usize>>,
    released: Notify,
}

/// Files of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Files {
    app: AppId,
    send: SendId,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct LargeEmail {
    room: Arc<Shared>,
    files: Files,
}

impl LargeEmails {
    /// Waits for room. Returns None at once if the email is not large.
    pub(crate) async fn enter(&self, app: AppId, send: SendId, bytes: u64) -> Option<LargeEmail> {
        if bytes < LARGE {
            return None;
        }
        loop {
            let mut released = pin!(self.0.released.notified());
            released.as_mut().enable();
            if let Some(entered) = self.try_enter(Files { app, send, bytes }) {
                return Some(entered);
            }
            released.await;
        }
    }

    fn try_enter(&self, files: Files) -> Option<LargeEmail> {
        let mut used = self.0.used();
        if !used.contains_key(&files) {
            let total: u64 = used.keys().map(|held| held.bytes).sum();
            let of_app: u64 = used.keys().filter(|held| held.app == files.app).map(|held| held.bytes).sum();
            if of_app + files.bytes > ROOM.saturating_sub(total + files.bytes) {
                return None;
            }
        }
        *used.entry(files).or_default() += 1;
        Some(LargeEmail { room: Arc::clone(&self.0), files })
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, HashMap<Files, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LargeEmail {
    fn drop(&mut self) {
        let mut used = self.room.used();
        if let Some(emails) = used.get_mut(&self.files) {
            *emails -= 1;
            if *emails > 0 {
                return;
            }
        }
        used.remove(&self.files);
        drop(used);
        self.room.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn send(number: u128) -> SendId {
        SendId(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn an_app_gets_at_most_as_much_room_as_it_leaves_free() {
        let room = LargeEmails::default();
        let enter = |app, number, bytes| room.enter(AppId(app), send(number), bytes).now_or_never().flatten();
        let held: Vec<_> = (0..3).map(|number| enter(1, number, 11 * MIB).unwrap()).collect();
        assert!(enter(1, 3, 11 * MIB).is_none(), "the app has 33 of 70 MiB");
        let others = [enter(2, 4, 11 * MIB).unwrap(), enter(3, 5, 11 * MIB).unwrap()];
        let mut waiting = pin!(room.enter(AppId(1), send(6), 2 * MIB));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(others);
        assert!(waiting.as_mut().now_or_never().is_some(), "released room is used again");
        drop(held);
        assert!(room.0.used().is_empty(), "sent emails leave no state");
    }

    #[tokio::test]
    async fn emails_of_a_send_share_the_room_of_its_files() {
        let room = LargeEmails::default();
        let enter = |number| room.enter(AppId(1), send(number), 30 * MIB).now_or_never().flatten();
        let mut held: Vec<_> = (0..500).map(|_| enter(1).unwrap()).collect();
        assert!(enter(2).is_none());
        held.truncate(1);
        assert!(enter(2).is_none(), "one email still needs the files");
        drop(held);
        assert!(enter(2).is_some());
        assert!(room.0.used().is_empty());
    }

    #[tokio::test]
    async fn small_emails_need_no_room_and_the_largest_fits_if_the_room_is_empty() {
        let room = LargeEmails::default();
        assert!(room.enter(AppId(1), send(1), LARGE - 1).await.is_none());
        assert!(room.enter(AppId(1), send(1), 15 * MIB).now_or_never().flatten().is_some());
    }
}
