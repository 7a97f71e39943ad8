//! A connection to a client, and its queue of updates.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use domain::{AppId, Timestamp};
use fairness::peer::Peer;
use metrics::{counter, gauge};
use service_kit::clock;
use service_kit::metrics::{REALTIME_CONNECTIONS, REALTIME_EVENTS, REALTIME_RESETS};
use tokio::time::{Duration, Instant};
use web::idle;

use crate::access::known_app::Evidence;
use crate::realtime::entrance::Admission;
use crate::realtime::update::{ByeReason, Kind, Moment, ResetReason, Update};

/// Maximum number of updates in a queue.
pub const QUEUED: usize = 128;
/// Maximum memory of the updates in a queue, in bytes.
pub const QUEUED_BYTES: usize = 64 * 1024;
/// Minimum time between two writes to a client. Updates in between are combined.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Time without an update after which a client gets a sign of life.
const QUIET_FOR: Duration = Duration::from_secs(25);
/// Time after which a connection ends, so that clients spread over all gateways again.
const OLDEST: Duration = Duration::from_secs(24 * 3_600);
/// Time for which a client may leave its updates unread.
const UNREAD_FOR: Duration = Duration::from_secs(30);

/// The caller of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) app: AppId,
    pub(crate) api_key: String,
    pub(crate) peer: Peer,
    /// Evidence with which the client opened the connection.
    pub(crate) evidence: Evidence,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) transport: Transport,
    /// Maximum number of connections of the app at this gateway; None for the share that the gateway gives each app.
    pub(crate) most_of_app: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    EventStream,
    SocketIo,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Transport::EventStream => "sse",
            Transport::SocketIo => "socket_io",
        }
    }
}

/// A connection. Feeds add updates; the connection's own task takes them.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(super) opened: Instant,
    queue: Mutex<Queue>,
    _admission: Admission,
    /// Counts the connections of this gateway.
    _open: Arc<()>,
    /// Keeps the connection from being closed as idle.
    busy: Option<idle::Request>,
}

/// A connection that is in use. When it is dropped, the connection is closed.
#[derive(Debug)]
pub(crate) struct OpenConnection(pub(crate) Arc<Connection>);

impl Deref for OpenConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Debug)]
struct Queue {
    updates: VecDeque<Update>,
    bytes: usize,
    /// No update follows those in the queue.
    is_ended: bool,
    /// The client has closed the connection.
    is_closed: bool,
    taken_at: Instant,
    waker: Option<Waker>,
}

impl Connection {
    pub(crate) fn new(
        client: Client,
        admission: Admission,
        open: Arc<()>,
        busy: Option<idle::Request>,
    ) -> Connection {
        let now = Instant::now();
        let queue = Queue {
            updates: VecDeque::new(),
            bytes: 0,
            is_ended: false,
            is_closed: false,
            taken_at: now,
            waker: None,
        };
        gauge!(REALTIME_CONNECTIONS, "transport" => client.transport.name()).increment(1);
        Connection { client, opened: now, queue: Mutex::new(queue), _admission: admission, _open: open, busy }
    }

    /// Adds an update. An earlier update of the same item that was not taken is combined with it. If the queue is full, all its
    /// updates are replaced by a reset.
    pub(crate) fn push(&self, update: Update) {
        let mut queue = self.queue();
        if queue.is_ended || queue.is_closed {
            return;
        }
        if let Some(kind) = update.kind.name() {
            counter!(REALTIME_EVENTS, "kind" => kind).increment(1);
        }
        queue.push(update);
        queue.wake();
    }

    /// Adds a last update, after which the connection ends.
    pub(crate) fn end(&self, reason: ByeReason, retry_after: u64) {
        let mut queue = self.queue();
        if queue.is_ended || queue.is_closed {
            return;
        }
        queue.push(Update { moment: None, kind: Kind::Bye { reason, retry_after } });
        queue.is_ended = true;
        queue.wake();
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        queue.updates.clear();
        queue.bytes = 0;
    }

    /// Returns true if no update can be added.
    pub(crate) fn is_over(&self) -> bool {
        let queue = self.queue();
        queue.is_ended || queue.is_closed
    }

    /// Takes all updates. Ready with None after the last update; pending while there is none.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<Option<VecDeque<Update>>> {
        let mut queue = self.queue();
        if !queue.updates.is_empty() {
            queue.bytes = 0;
            queue.taken_at = Instant::now();
            return Poll::Ready(Some(std::mem::take(&mut queue.updates)));
        }
        if queue.is_ended {
            return Poll::Ready(None);
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ends the connection if its time is over, and adds a sign of life if it was quiet.
    pub(crate) fn tend(&self, now: Instant) {
        if self.client.expires_at.is_some_and(|end| end <= clock::now()) {
            return self.end(ByeReason::Expired, 0);
        }
        if now.duration_since(self.opened) >= OLDEST {
            return self.end(ByeReason::TooLong, 0);
        }
        let mut queue = self.queue();
        if self.busy.as_ref().is_some_and(idle::Request::client_has_gone) {
            queue.is_ended = true;
            queue.wake();
            return;
        }
        let quiet = now.duration_since(queue.taken_at);
        if queue.updates.is_empty() && quiet >= QUIET_FOR {
            queue.push(Update { moment: None, kind: Kind::KeepAlive });
            queue.wake();
        } else if !queue.is_lost() && quiet >= QUIET_FOR + UNREAD_FOR {
            // The client reads nothing. Its socket's time limit closes the connection; here, only the memory is released.
            queue.lose(None);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        gauge!(REALTIME_CONNECTIONS, "transport" => self.client.transport.name()).decrement(1);
    }
}

impl Queue {
    fn push(&mut self, mut update: Update) {
        if let Some(item) = update.kind.item()
            && let Some(place) = self.updates.iter().position(|queued| queued.kind.item() == Some(item))
            && let Some(earlier) = self.updates.remove(place)
        {
            self.bytes -= earlier.kind.size();
            update.kind = update.kind.after(&earlier.kind);
            // Between these updates, the client has not received the earlier one, so it must not continue from there.
            self.updates.iter_mut().skip(place).for_each(|passed| passed.moment = None);
        }
        let is_full = self.updates.len() >= QUEUED || self.bytes + update.kind.size() > QUEUED_BYTES;
        // The last update contains the reason why the connection ends, so it is never lost.
        if is_full && !matches!(update.kind, Kind::Bye { .. }) {
            return self.lose(update.moment);
        }
        self.bytes += update.kind.size();
        self.updates.push_back(update);
    }

    /// Replaces all updates but the greeting by a reset.
    fn lose(&mut self, last: Option<Moment>) {
        let moment = last.or_else(|| self.updates.iter().rev().find_map(|update| update.moment));
        self.updates.retain(|update| matches!(update.kind, Kind::Ready { .. }));
        self.updates.push_back(Update { moment, kind: Kind::Reset(ResetReason::TooSlow) });
        self.bytes = self.updates.iter().map(|update| update.kind.size()).sum();
        count_reset(ResetReason::TooSlow);
    }

    /// Returns true if the updates of a client that does not read have been replaced already.
    fn is_lost(&self) -> bool {
        self.updates.iter().all(|update| matches!(update.kind, Kind::Ready { .. } | Kind::Reset(_)))
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

pub(crate) fn count_reset(reason: ResetReason) {
    let reason = match reason {
        ResetReason::Rebuilt => "rebuilt",
        ResetReason::TooOld => "too_old",
        ResetReason::TooSlow => "too_slow",
    };
    counter!(REALTIME_RESETS, "reason" => reason).increment(1);
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::task::Waker;

    use domain::ItemId;
    use domain::inbox::Counts;
    use serde_json::value::RawValue;

    use super::*;
    use crate::realtime::entrance::Entrance;
    use crate::realtime::update::{Changes, DeleteReason, StreamTag};
    use fairness::principal::Principal;

    fn connection() -> Connection {
        let app = AppId(1);
        let client = Client {
            app,
            api_key: "shop".to_owned(),
            peer: Peer::of(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            evidence: Evidence::PublicKey,
            expires_at: None,
            transport: Transport::EventStream,
            most_of_app: None,
        };
        let admission = Entrance::new(8).admit(&client, &Principal::backend(app)).unwrap();
        Connection::new(client, admission, Arc::default(), None)
    }

    fn content(size: usize) -> Arc<RawValue> {
        serde_json::value::to_raw_value(&"x".repeat(size)).unwrap().into()
    }

    fn created(item: i64, size: usize) -> Update {
        let moment = Moment { stream: StreamTag::of("INBOX_0", 1, 1), seq: item.unsigned_abs() };
        let (item, counts) = (ItemId(item), Counts::default());
        Update { moment: Some(moment), kind: Kind::Created { item, content: content(size), counts } }
    }

    fn taken(connection: &Connection) -> Vec<Update> {
        match connection.poll_take(&Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(updates)) => updates.into(),
            Poll::Ready(None) | Poll::Pending => Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn updates_of_one_item_are_combined_until_they_are_taken() {
        let connection = connection();
        connection.push(created(1, 1));
        connection.push(created(2, 1));
        for changes in
            [Changes { seen: true, ..Changes::default() }, Changes { read: true, ..Changes::default() }]
        {
            let (item, counts) = (ItemId(1), Counts::default());
            let kind = Kind::Updated { item, content: content(1), changes, counts };
            connection.push(Update { moment: created(3, 1).moment, kind });
        }
        let updates = taken(&connection);
        assert!(matches!(updates[0].kind, Kind::Created { item: ItemId(2), .. }));
        assert!(matches!(updates[1].kind, Kind::Created { item: ItemId(1), .. }), "still new for the client");
        assert_eq!((updates[0].moment, updates[1].moment), (None, created(3, 1).moment));
        let kind = Kind::Deleted {
            item: ItemId(1),
            send: None,
            reason: DeleteReason::Deleted,
            counts: Counts::default(),
        };
        connection.push(created(1, 1));
        connection.push(Update { moment: None, kind });
        assert!(matches!(taken(&connection)[..], [Update { kind: Kind::Deleted { .. }, .. }]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_becomes_one_reset_at_the_position_of_the_last_update() {
        for (count, size) in [(QUEUED + 1, 1), (5, 15 * 1024)] {
            let connection = connection();
            for item in 1..=count {
                connection.push(created(i64::try_from(item).unwrap(), size));
            }
            let updates = taken(&connection);
            let last = created(i64::try_from(count).unwrap(), 1).moment;
            assert_eq!((updates.len(), updates[0].moment), (1, last));
            assert!(matches!(updates[0].kind, Kind::Reset(ResetReason::TooSlow)));
            for item in 1..=count * 10 {
                connection.push(created(i64::try_from(item).unwrap(), size));
                assert!(
                    connection.queue().bytes <= QUEUED_BYTES && connection.queue().updates.len() <= QUEUED
                );
            }
            connection.end(ByeReason::Stopping, 0);
            assert!(
                matches!(taken(&connection).last().unwrap().kind, Kind::Bye { .. }),
                "the reason is kept"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_connection_gets_signs_of_life_and_an_old_one_ends() {
        let connection = connection();
        let begin = Instant::now();
        connection.tend(begin + QUIET_FOR - Duration::from_millis(1));
        assert!(taken(&connection).is_empty());
        connection.tend(begin + QUIET_FOR);
        assert!(matches!(taken(&connection)[..], [Update { kind: Kind::KeepAlive, .. }]));
        connection.push(created(1, 1));
        connection.tend(begin + QUIET_FOR + UNREAD_FOR);
        assert!(matches!(taken(&connection)[..], [Update { kind: Kind::Reset(ResetReason::TooSlow), .. }]));
        connection.tend(begin + OLDEST);
        assert!(connection.is_over());
        let bye = taken(&connection);
        assert!(matches!(bye[..], [Update { kind: Kind::Bye { reason: ByeReason::TooLong, .. }, .. }]));
    }
}
