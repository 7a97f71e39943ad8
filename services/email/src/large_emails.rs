use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{AppId, SendId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// An email is large if its attachments have this many bytes or more in total.
const LARGE: u64 = 256 << 10;
/// Maximum total size of the attachments of large emails, in bytes before base64.
const ROOM: u64 = 70 << 20;
/// Time for which waiting files precede later ones of an app that holds as much room. A third of the time for which an email may wait.
const PRECEDENCE: Duration = Duration::from_secs(2);

/// Room for the files of large emails. The emails of a send share its files, so they take up room once. An app may hold at most as much room
/// as it leaves free, so mail servers of one app that read slowly for minutes delay no other app. While files wait, no email joins files of
/// the same app, or of an app that holds more: otherwise a send to many recipients would keep its room until its end. New files let those go
/// first that have waited longer, if these are of an app that holds less, or for [`PRECEDENCE`] if it holds as much. Clones share the room.
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
    /// Files with which emails wait for room, and the end of their precedence, by ticket.
    waiting: BTreeMap<u64, (Files, Instant)>,
    next_ticket: u64,
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
    ticket: u64,
    precedes_until: Instant,
}

impl LargeEmails {
    /// Waits for room. Returns None at once if the email is not large.
    pub(crate) async fn enter(&self, app: AppId, send: SendId, bytes: u64) -> Option<LargeEmail> {
        if bytes < LARGE {
            return None;
        }
        let files = Files { app, send, bytes };
        let mut waiting: Option<Waiting> = None;
        loop {
            let mut released = pin!(self.0.released.notified());
            released.as_mut().enable();
            let ticket = waiting.as_ref().map_or(u64::MAX, |waiting| waiting.ticket);
            let now = Instant::now();
            if let Some(entered) = self.try_enter(files, ticket, now) {
                return Some(entered);
            }
            if waiting.is_none() && !self.0.used().emails.contains_key(&files) {
                waiting = Some(Waiting::new(&self.0, files));
            }
            match &waiting {
                // The precedence of all earlier files has ended then.
                Some(waiting) if now < waiting.precedes_until => tokio::select! {
                    () = released => {}
                    () = sleep_until(waiting.precedes_until) => {}
                },
                _ => released.await,
            }
        }
    }

    fn try_enter(&self, files: Files, ticket: u64, now: Instant) -> Option<LargeEmail> {
        let mut used = self.0.used();
        let may_enter = if used.emails.contains_key(&files) {
            used.may_join(files)
        } else {
            used.may_add(files, ticket, now)
        };
        may_enter.then(|| {
            *used.emails.entry(files).or_default() += 1;
            LargeEmail { room: Arc::clone(&self.0), files }
        })
    }
}

impl Used {
    fn room_of(&self, app: AppId) -> u64 {
        self.emails.keys().filter(|held| held.app == app).map(|held| held.bytes).sum()
    }

    fn may_join(&self, files: Files) -> bool {
        let held = self.room_of(files.app);
        self.lacking().all(|(_, waiting, _)| !self.goes_first(waiting, files.app, held))
    }

    fn may_add(&self, files: Files, ticket: u64, now: Instant) -> bool {
        let held = self.room_of(files.app);
        let total: u64 = self.emails.keys().map(|held| held.bytes).sum();
        let has_room = held + files.bytes <= ROOM.saturating_sub(total + files.bytes);
        let mut earlier = self.lacking().filter(|(other, waiting, _)| *other < ticket && *waiting != files);
        has_room
            && earlier.all(|(_, waiting, precedes_until)| {
                let below = if now < precedes_until { held + 1 } else { held };
                !self.goes_first(waiting, files.app, below)
            })
    }

    /// Files that wait. Emails that wait to join files which others hold already are left out.
    fn lacking(&self) -> impl Iterator<Item = (u64, Files, Instant)> {
        let waiting = self.waiting.iter().map(|(ticket, (files, until))| (*ticket, *files, *until));
        waiting.filter(|(_, files, _)| !self.emails.contains_key(files))
    }

    /// Returns true if the waiting files are of the same app, or of an app that holds less than `below`. Files that could not enter even if
    /// all other apps held nothing wait for their own app only.
    fn goes_first(&self, waiting: Files, app: AppId, below: u64) -> bool {
        let held = self.room_of(waiting.app);
        waiting.app == app || (held < below && 2 * (held + waiting.bytes) <= ROOM)
    }
}

impl<'a> Waiting<'a> {
    fn new(room: &'a Shared, files: Files) -> Self {
        let mut used = room.used();
        let ticket = used.next_ticket;
        used.next_ticket += 1;
        let precedes_until = Instant::now() + PRECEDENCE;
        used.waiting.insert(ticket, (files, precedes_until));
        Waiting { room, ticket, precedes_until }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.room.used().waiting.remove(&self.ticket);
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
    use tokio::time::timeout;
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
    async fn all_emails_that_waited_for_the_same_files_enter_together() {
        let room = LargeEmails::default();
        let enter = |number| room.enter(AppId(1), send(number), 30 * MIB);
        let held = enter(1).now_or_never().flatten().unwrap();
        let mut waiting: Vec<_> = (0..24).map(|_| Box::pin(enter(2))).collect();
        for email in &mut waiting {
            assert!(email.as_mut().now_or_never().is_none());
        }
        drop(held);
        // The last one to come is polled first.
        let entered = waiting.into_iter().rev().filter_map(|email| email.now_or_never().flatten());
        let entered: Vec<_> = entered.collect();
        assert_eq!(entered.len(), 24, "they share the room of the files");
        drop(entered);
        assert!(room.0.used().waiting.is_empty() && room.0.used().emails.is_empty());
    }

    #[tokio::test]
    async fn small_new_files_do_not_overtake_large_ones_for_ever() {
        let room = LargeEmails::default();
        let enter = |app, number, mib| room.enter(AppId(app), send(number), mib * MIB);
        let mut held: Vec<_> =
            (0..15).map(|number| enter(1, number, 2).now_or_never().flatten().unwrap()).collect();
        let mut large = pin!(enter(1, 20, 10));
        assert!(large.as_mut().now_or_never().is_none());
        let mut small = pin!(enter(1, 21, 2));
        assert!(small.as_mut().now_or_never().is_none(), "the large files have waited longer");
        let of_other = enter(2, 22, 2).now_or_never().flatten();
        assert!(of_other.is_some(), "another app with less room does not wait for them");
        held.truncate(10);
        assert!(large.as_mut().now_or_never().flatten().is_some());
        assert!(small.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn files_without_room_precede_small_ones_of_other_apps_for_a_limited_time() {
        let room = LargeEmails::default();
        let enter = |app, number, mib| room.enter(AppId(app), send(number), mib * MIB);
        let mut slow: Vec<_> = [(1, 30), (2, 20), (3, 10)]
            .into_iter()
            .map(|(app, mib)| enter(app, 1, mib).now_or_never().flatten().unwrap())
            .collect();
        let came = Instant::now();
        let mut large = pin!(enter(4, 2, 10));
        assert!(large.as_mut().now_or_never().is_none(), "10 of 70 MiB are free");
        let files = Files { app: AppId(5), send: send(3), bytes: MIB };
        assert!(room.try_enter(files, u64::MAX, came).is_none(), "the large files came earlier");
        let small = timeout(10 * PRECEDENCE, enter(5, 3, 1)).await.expect("no email ends meanwhile").unwrap();
        assert!(
            enter(5, 4, 1).now_or_never().is_none(),
            "an app that holds more lets the large files go first"
        );
        slow.pop();
        drop(small);
        assert!(large.as_mut().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn files_that_wait_for_their_own_app_delay_no_other_app() {
        let room = LargeEmails::default();
        let enter =
            |app, number, mib| room.enter(AppId(app), send(number), mib * MIB).now_or_never().flatten();
        let slow = enter(1, 1, 10).unwrap();
        let mut own = pin!(room.enter(AppId(1), send(2), 30 * MIB));
        assert!(own.as_mut().now_or_never().is_none());
        let of_other: Vec<_> = (3..6).map(|number| enter(2, number, 5).unwrap()).collect();
        assert!(enter(2, 3, 5).is_some(), "it holds more, and may join its own files");
        drop((slow, of_other));
    }

    #[tokio::test]
    async fn small_emails_need_no_room_and_the_largest_fits_if_the_room_is_empty() {
        let room = LargeEmails::default();
        assert!(room.enter(AppId(1), send(1), LARGE - 1).await.is_none());
        assert!(room.enter(AppId(1), send(1), 15 * MIB).now_or_never().flatten().is_some());
    }
}
