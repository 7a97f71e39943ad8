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
/// it leaves free, so mail servers of one app that read slowly for minutes delay no other app. While files wait for room, no more emails
/// share files of their app, or of an app with more room: otherwise a send to many recipients would keep its room until its end. Clones share
/// the room.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeEmails(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    used: Mutex<Used>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Used {
    /// Number of emails that are sent with these files.
    emails: HashMap<Files, usize>,
    /// Number of emails of an app that wait for room for their files.
    waiting: HashMap<AppId, usize>,
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

/// An email that waits for room for its files.
struct Waiting<'a> {
    room: &'a Shared,
    app: AppId,
}

impl LargeEmails {
    /// Waits for room. Returns None at once if the email is not large.
    pub(crate) async fn enter(&self, app: AppId, send: SendId, bytes: u64) -> Option<LargeEmail> {
        if bytes < LARGE {
            return None;
        }
        let files = Files { app, send, bytes };
        let mut waiting = None;
        loop {
            let mut released = pin!(self.0.released.notified());
            released.as_mut().enable();
            if let Some(entered) = self.try_enter(files) {
                return Some(entered);
            }
            if waiting.is_none() && !self.0.used().emails.contains_key(&files) {
                waiting = Some(Waiting::new(&self.0, app));
            }
            released.await;
        }
    }

    fn try_enter(&self, files: Files) -> Option<LargeEmail> {
        let mut used = self.0.used();
        let has_room = if used.emails.contains_key(&files) {
            !used.must_make_room(files.app)
        } else {
            let total: u64 = used.emails.keys().map(|held| held.bytes).sum();
            used.room_of(files.app) + files.bytes <= ROOM.saturating_sub(total + files.bytes)
        };
        has_room.then(|| {
            *used.emails.entry(files).or_default() += 1;
            LargeEmail { room: Arc::clone(&self.0), files }
        })
    }
}

impl Used {
    fn room_of(&self, app: AppId) -> u64 {
        self.emails.keys().filter(|held| held.app == app).map(|held| held.bytes).sum()
    }

    fn must_make_room(&self, app: AppId) -> bool {
        let held = self.room_of(app);
        self.waiting.keys().any(|&waiting| waiting == app || self.room_of(waiting) < held)
    }
}

impl<'a> Waiting<'a> {
    fn new(room: &'a Shared, app: AppId) -> Self {
        *room.used().waiting.entry(app).or_default() += 1;
        Waiting { room, app }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut used = self.room.used();
        if let Some(emails) = used.waiting.get_mut(&self.app) {
            *emails -= 1;
            if *emails > 0 {
                return;
            }
        }
        used.waiting.remove(&self.app);
        drop(used);
        self.room.released.notify_waiters();
    }
}

impl Shared {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LargeEmail {
    fn drop(&mut self) {
        let mut used = self.room.used();
        if let Some(emails) = used.emails.get_mut(&self.files) {
            *emails -= 1;
            if *emails > 0 {
                return;
            }
        }
        used.emails.remove(&self.files);
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
        assert!(room.0.used().emails.is_empty(), "sent emails leave no state");
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
        assert!(room.0.used().emails.is_empty());
    }

    #[tokio::test]
    async fn sends_to_many_recipients_make_room_for_files_that_wait() {
        let room = LargeEmails::default();
        let enter = |app, number| room.enter(AppId(app), send(number), 10 * MIB).now_or_never().flatten();
        let of_first: Vec<_> = (0..3).map(|number| enter(1, number).unwrap()).collect();
        let of_second: Vec<_> = (3..5).map(|number| enter(2, number).unwrap()).collect();
        let of_third = enter(3, 5).unwrap();
        assert!(enter(1, 0).is_some(), "no files wait");
        let mut fourth = pin!(room.enter(AppId(4), send(6), 10 * MIB));
        assert!(fourth.as_mut().now_or_never().is_none());
        for (app, number) in [(1, 0), (2, 3), (3, 5)] {
            assert!(enter(app, number).is_none(), "app {app} must make room");
        }
        drop(of_second);
        assert!(fourth.as_mut().now_or_never().flatten().is_some());
        assert!(enter(1, 0).is_some() && enter(3, 5).is_some(), "no files wait any more");
        drop((of_first, of_third));
    }

    #[tokio::test]
    async fn an_app_makes_room_for_its_own_next_send_and_no_longer_after_that_gave_up() {
        let room = LargeEmails::default();
        let enter = |number| room.enter(AppId(1), send(number), 30 * MIB).now_or_never().flatten();
        let held = enter(1).unwrap();
        {
            let mut next = pin!(room.enter(AppId(1), send(2), 30 * MIB));
            assert!(next.as_mut().now_or_never().is_none());
            assert!(enter(1).is_none());
        }
        assert!(enter(1).is_some());
        drop(held);
        assert!(room.0.used().waiting.is_empty());
    }

    #[tokio::test]
    async fn small_emails_need_no_room_and_the_largest_fits_if_the_room_is_empty() {
        let room = LargeEmails::default();
        assert!(room.enter(AppId(1), send(1), LARGE - 1).await.is_none());
        assert!(room.enter(AppId(1), send(1), 15 * MIB).now_or_never().flatten().is_some());
    }
}
