//! Closing of idle connections. actix-web limits only the time for the head of a connection's first request. It limits neither
//! the time for the heads of later requests nor the time for reading an answer.

use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::rt::net::TcpStream;
use socket2::{SockRef, Socket};

/// Maximum time between two requests of a connection. Within this time, the client must read the previous answer and send the
/// next head.
pub const IDLE_AT_MOST: Duration = Duration::from_secs(120);
/// Maximum idle time while connections are scarce, for peers that have not recently sent an app's API secret.
pub const IDLE_WHILE_SCARCE: Duration = Duration::from_secs(10);

/// Activity of an open connection, stored with the connection.
#[derive(Debug)]
pub struct Activity {
    /// A duplicate of the connection's file descriptor. The original descriptor may be closed, and its number reused, before
    /// the sweep shuts the connection down.
    socket: Socket,
    is_strangers: bool,
    opened: Instant,
    requests: AtomicUsize,
    /// End of the last request, in milliseconds since `opened`.
    idle_since: AtomicU64,
}

/// Guard of a request in progress.
#[derive(Debug)]
pub struct Request(Arc<Activity>);

/// Activity of all open connections. Clones share it.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Vec<Weak<Activity>>>>);

impl Watch {
    /// Watches a connection until the returned activity is dropped. None if the process has no free file descriptor; such a
    /// connection is never closed for being idle.
    pub fn begin(&self, stream: &TcpStream, is_strangers: bool) -> Option<Arc<Activity>> {
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

    /// Shuts down every connection that has been idle for too long. If connections are scarce (`is_scarce`), the limit is
    /// shorter for peers that have not sent an app's API secret recently.
    pub fn sweep(&self, is_scarce: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|activity| {
            let Some(activity) = activity.upgrade() else { return false };
            let most = if is_scarce && activity.is_strangers { IDLE_WHILE_SCARCE } else { IDLE_AT_MOST };
            if activity.idle_for().is_some_and(|idle| idle >= most) {
                // The call fails if the peer has already closed the connection.
                drop(activity.socket.shutdown(Shutdown::Both));
            }
            true
        });
    }
}

impl Activity {
    /// Returns the idle time; None while a request is in progress.
    fn idle_for(&self) -> Option<Duration> {
        let is_idle = self.requests.load(Ordering::Acquire) == 0;
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        is_idle.then(|| self.opened.elapsed().saturating_sub(since))
    }
}

impl Request {
    /// Marks the connection of a request as busy until the guard is dropped. None if the connection is not watched.
    pub fn begin(request: &HttpRequest) -> Option<Request> {
        let activity = request.conn_data::<Arc<Activity>>()?;
        activity.requests.fetch_add(1, Ordering::AcqRel);
        Some(Request(Arc::clone(activity)))
    }

    /// Returns true if the client has closed its side of the connection. actix-web notices this only when it next writes.
    pub fn client_has_gone(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        match self.0.socket.peek(&mut byte) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let now = self.0.opened.elapsed().as_millis();
        self.0.idle_since.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}
