//! How full streams are, as far as it matters to whoever writes to them.
//!
//! The dispatcher adds nothing to a stream from [`DISPATCHER_STOPS`] on, since what it would add waits well where it is. The
//! gateway refuses requests from [`GATEWAY_STOPS`] on. What is left is for what must not be refused: outcomes and erasures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::EventLog;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The share of a stream's room from which on the dispatcher adds nothing to it.
pub const DISPATCHER_STOPS: f64 = 0.8;
/// The share of a stream's room from which on requests are refused.
pub const GATEWAY_STOPS: f64 = 0.9;
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Streams, and how full each was when it was last looked at. Clones share it.
#[derive(Clone, Debug)]
pub struct Fullness {
    limit: f64,
    streams: Arc<[(StreamName, AtomicU64)]>,
}

impl Fullness {
    /// Nothing is full as far as is known. From `limit` on, a share of 0 to 1, a stream counts as full.
    #[must_use]
    pub fn new(limit: f64, streams: impl IntoIterator<Item = StreamName>) -> Fullness {
        let empty = || AtomicU64::new(0.0_f64.to_bits());
        Fullness { limit, streams: streams.into_iter().map(|stream| (stream, empty())).collect() }
    }

    /// Whether the stream was full when it was last looked at.
    #[must_use]
    pub fn is_full(&self, stream: StreamName) -> bool {
        self.above(self.limit).any(|name| name == stream)
    }

    /// The streams that were full when they were last looked at.
    pub fn full(&self) -> impl Iterator<Item = StreamName> {
        self.above(self.limit)
    }

    /// The streams of which at least this share was used when they were last looked at.
    pub fn above(&self, share: f64) -> impl Iterator<Item = StreamName> {
        let known =
            self.streams.iter().map(|(name, fill)| (*name, f64::from_bits(fill.load(Ordering::Relaxed))));
        known.filter(move |(_, fill)| *fill >= share).map(|(name, _)| name)
    }

    /// Looks at every stream each second, until `end`.
    pub async fn follow_until(self, end: CancellationToken, log: EventLog) -> anyhow::Result<()> {
        while end.run_until_cancelled(self.look(&log)).await.is_some() {
            end.run_until_cancelled(sleep(LOOK_INTERVAL)).await;
        }
        Ok(())
    }

    /// Looks at every stream once. What is known of one that cannot be looked at stays as it was.
    pub async fn look(&self, log: &EventLog) {
        for (stream, known) in self.streams.iter() {
            match log.state(*stream).await {
                Ok(state) => {
                    let before = f64::from_bits(known.swap(state.fill.to_bits(), Ordering::Relaxed));
                    match (before >= self.limit, state.fill >= self.limit) {
                        (false, true) => {
                            tracing::error!(%stream, fill = state.fill, "a stream is nearly full");
                        }
                        (true, false) => {
                            tracing::info!(%stream, fill = state.fill, "a stream has room again");
                        }
                        _ => {}
                    }
                }
                // Appending to it will tell the caller.
                Err(error) => tracing::debug!(%stream, %error, "a stream cannot be looked at"),
            }
        }
    }
}
