//! Fullness of streams and of the store that they share (`docs/decisions/0064-the-store-is-shared-and-its-size-is-probed.md`). The store
//! stops sends before jobs, because planning the sends that the log already holds makes room. The last 10 % are reserved for messages that
//! must not be refused: outcomes and erasures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::{EventLog, StoreUse};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Fraction of a stream's limits at which the dispatcher adds nothing to it.
pub const DISPATCHER_STOPS: f64 = 0.8;
/// Fraction of a stream's limits at which the gateway refuses requests that would add to it.
pub const GATEWAY_STOPS: f64 = 0.9;
/// Fraction of the store's limit at which no process adds sends.
pub const SENDS_STOP: f64 = 0.8;
/// Fraction of the store's limit at which no process adds jobs or inbox events.
pub const WORK_STOPS: f64 = 0.9;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Fill at the last check. All clones use the same state.
#[derive(Clone, Debug)]
pub struct Fullness {
    limit: f64,
    streams: Arc<[CheckedStream]>,
    store: Arc<CheckedStore>,
}

#[derive(Debug)]
struct CheckedStream {
    name: StreamName,
    /// Fraction of the stream's limits, as the bits of a float.
    fill: AtomicU64,
    bytes: AtomicU64,
}

/// Bytes; a limit of 0 means that there is none.
#[derive(Debug, Default)]
struct CheckedStore {
    used: AtomicU64,
    limit: AtomicU64,
}

impl Fullness {
    /// A stream counts as full at the fraction `limit` of its limits, and never before the first check.
    #[must_use]
    pub fn new(limit: f64, streams: impl IntoIterator<Item = StreamName>) -> Fullness {
        let empty =
            |name| CheckedStream { name, fill: AtomicU64::new(0.0_f64.to_bits()), bytes: AtomicU64::new(0) };
        Fullness { limit, streams: streams.into_iter().map(empty).collect(), store: Arc::default() }
    }

    /// True if the stream or the store was full at the last check.
    #[must_use]
    pub fn is_full(&self, stream: StreamName) -> bool {
        self.full().any(|name| name == stream)
    }

    pub fn full(&self) -> impl Iterator<Item = StreamName> {
        let store = self.store().fill();
        self.streams
            .iter()
            .filter(move |stream| stream.fill() >= self.limit || store >= store_limit(stream.name))
            .map(|stream| stream.name)
    }

    /// Streams that have reached the fraction `share` of their own limits.
    pub fn above(&self, share: f64) -> impl Iterator<Item = StreamName> {
        self.streams.iter().filter(move |stream| stream.fill() >= share).map(|stream| stream.name)
    }

    /// Use at the last check, with the bytes that were [`added`](Self::add) since.
    #[must_use]
    pub fn store(&self) -> StoreUse {
        let limit = self.store.limit.load(Ordering::Relaxed);
        StoreUse { used: self.store.used.load(Ordering::Relaxed), limit: (limit > 0).then_some(limit) }
    }

    pub fn bytes(&self, of: impl Fn(StreamName) -> bool) -> u64 {
        let selected = self.streams.iter().filter(|stream| of(stream.name));
        selected.map(|stream| stream.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Counts bytes that this process is about to publish, so that the store is not overfilled between two checks.
    pub fn add(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.store.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Checks every second.
    pub async fn follow_until(self, end: CancellationToken, log: EventLog) -> anyhow::Result<()> {
        while end.run_until_cancelled(self.refresh(&log)).await.is_some() {
            end.run_until_cancelled(sleep(CHECK_INTERVAL)).await;
        }
        Ok(())
    }

    /// A stream that cannot be checked keeps its last value.
    pub async fn refresh(&self, log: &EventLog) {
        match log.store_use().await {
            Ok(store) => self.note_store(store),
            // These lines are only for debugging: a process that publishes to the stream gets the error itself.
            Err(error) => tracing::debug!(%error, "cannot read the use of the store"),
        }
        for stream in self.streams.iter() {
            match log.state(stream.name).await {
                Ok(state) => {
                    stream.bytes.store(state.bytes, Ordering::Relaxed);
                    self.note_fill(stream, state.fill);
                }
                Err(error) => {
                    tracing::debug!(stream = %stream.name, %error, "cannot read the state of a stream");
                }
            }
        }
    }

    fn note_fill(&self, stream: &CheckedStream, fill: f64) {
        let before = f64::from_bits(stream.fill.swap(fill.to_bits(), Ordering::Relaxed));
        match (before >= self.limit, fill >= self.limit) {
            (false, true) => tracing::error!(stream = %stream.name, fill, "a stream is nearly full"),
            (true, false) => tracing::info!(stream = %stream.name, fill, "a stream is no longer nearly full"),
            _ => {}
        }
    }

    fn note_store(&self, store: StoreUse) {
        let before = self.store().fill();
        self.store.used.store(store.used, Ordering::Relaxed);
        self.store.limit.store(store.limit.unwrap_or(0), Ordering::Relaxed);
        let (used, limit, fill) = (store.used, store.limit, store.fill());
        match (before >= SENDS_STOP, fill >= SENDS_STOP) {
            (false, true) => tracing::error!(used, limit, fill, "the store of the log is nearly full"),
            (true, false) => {
                tracing::info!(used, limit, fill, "the store of the log is no longer nearly full");
            }
            _ => {}
        }
    }
}

impl CheckedStream {
    fn fill(&self) -> f64 {
        f64::from_bits(self.fill.load(Ordering::Relaxed))
    }
}

fn store_limit(stream: StreamName) -> f64 {
    match stream {
        StreamName::Send(_) => SENDS_STOP,
        StreamName::Job(..) | StreamName::Inbox(_) | StreamName::Outcome => WORK_STOPS,
    }
}
