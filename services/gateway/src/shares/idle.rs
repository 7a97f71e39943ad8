//! Connections on which no request is under way, and an end to those that stay so: the server itself limits neither the
//! head of a connection's second request nor the time in which an answer is read.

use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::rt::net::TcpStream;
use socket2::{SockRef, Socket};

/// How long a connection may stay open without a request under way, the reading of answers included.
pub const IDLE_AT_MOST: Duration = Duration::from_secs(120);
/// The same for a peer without the secret while connections are scarce.
pub const IDLE_WHILE_SCARCE: Duration = Duration::from_secs(10);

/// What happens on a connection. It ends with the connection.
pub(crate) struct Activity {
    /// The connection's own, so that its number cannot have become another's when it is shut down.
    socket: Socket,
    is_strangers: bool,
    opened: Instant,
    requests: AtomicUsize,
    /// When the last request ended, in milliseconds since it was opened.
    idle_since: AtomicU64,
}

/// A request on a connection, until it is dropped.
pub(crate) struct Request(Arc<Activity>);

/// The connections that are watched. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Vec<Weak<Activity>>>>);

impl Watch {
    /// Watches a connection for as long as what is returned is kept. None where the process has no file left for it.
    pub(crate) fn begin(&self, stream: &TcpStream, is_strangers: bool) -> Option<Arc<Activity>> {
        let activity = Arc::new(Activity {
            socket: SockRef::from(stream).try_clone().ok()?,
            is_strangers,
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&activity));
        Some(activity)
    }

    /// Shuts down every connection that has been idle for too long.
    pub(crate) fn sweep(&self, is_scarce: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|activity| {
            let Some(activity) = activity.upgrade() else { return false };
            let most = if is_scarce && activity.is_strangers { IDLE_WHILE_SCARCE } else { IDLE_AT_MOST };
            if activity.idle_for().is_some_and(|idle| idle >= most) {
                // It fails where the peer has closed it already.
                drop(activity.socket.shutdown(Shutdown::Both));
            }
            true
        });
    }
}

impl Activity {
    /// None while a request is under way.
    fn idle_for(&self) -> Option<Duration> {
        let is_idle = self.requests.load(Ordering::Acquire) == 0;
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        is_idle.then(|| self.opened.elapsed().saturating_sub(since))
    }
}

impl Request {
    /// Notes that a request is under way on its connection. None for a connection that is not watched.
    pub(crate) fn begin(request: &HttpRequest) -> Option<Request> {
        let activity = request.conn_data::<Arc<Activity>>()?;
        activity.requests.fetch_add(1, Ordering::AcqRel);
        Some(Request(Arc::clone(activity)))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let now = self.0.opened.elapsed().as_millis();
        self.0.idle_since.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
