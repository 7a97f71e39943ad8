//! Fullness of streams, for processes that publish to them.
//!
//! If a stream is 80 % full ([`DISPATCHER_STOPS`]), the dispatcher adds nothing to it, and sends wait in their own stream. If a
//! stream is 90 % full ([`GATEWAY_STOPS`]), the gateway refuses requests that would add to it. The last 10 % are reserved for
//! messages that must not be refused: outcomes and erasures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::EventLog;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Used share of a stream's message limit at which the dispatcher stops adding to the stream.
pub const DISPATCHER_STOPS: f64 = 0.8;
/// Used share of a stream's message limit at which the gateway refuses requests that would add to the stream.
pub const GATEWAY_STOPS: f64 = 0.9;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Used share of each stream's message limit at the last check. All clones use the same state.
#[derive(Clone, Debug)]
pub struct Fullness {
    limit: f64,
    streams: Arc<[(StreamName, AtomicU64)]>,
}

impl Fullness {
    /// Creates the state of `streams`. A stream counts as full if the used share of its message limit is at least `limit` (0 to
    /// 1). Before the first check, no stream counts as full.
    #[must_use]
    pub fn new(limit: f64, streams: impl IntoIterator<Item = StreamName>) -> Fullness {
        let empty = || AtomicU64::new(0.0_f64.to_bits());
        Fullness { limit, streams: streams.into_iter().map(|stream| (stream, empty())).collect() }
    }

    /// Returns true if the stream was full when it was last checked.
    #[must_use]
    pub fn is_full(&self, stream: StreamName) -> bool {
        self.above(self.limit).any(|name| name == stream)
    }

    /// Lists the streams that were full when they were last checked.
    pub fn full(&self) -> impl Iterator<Item = StreamName> {
        self.above(self.limit)
    }

    /// Lists the streams whose used share was at least `share` when they were last checked.
    pub fn above(&self, share: f64) -> impl Iterator<Item = StreamName> {
        let known =
            self.streams.iter().map(|(name, fill)| (*name, f64::from_bits(fill.load(Ordering::Relaxed))));
        known.filter(move |(_, fill)| *fill >= share).map(|(name, _)| name)
    }

    /// Checks all streams every second, until `end`.
    pub async fn follow_until(self, end: CancellationToken, log: EventLog) -> anyhow::Result<()> {
        while end.run_until_cancelled(self.refresh(&log)).await.is_some() {
            end.run_until_cancelled(sleep(CHECK_INTERVAL)).await;
        }
        Ok(())
    }

    /// Checks all streams once. A stream that cannot be checked keeps its last value.
    pub async fn refresh(&self, log: &EventLog) {
        for (stream, known) in self.streams.iter() {
            match log.state(*stream).await {
                Ok(state) => {
                    let before = f64::from_bits(known.swap(state.fill.to_bits(), Ordering::Relaxed));
                    match (before >= self.limit, state.fill >= self.limit) {
                        (false, true) => {
                            tracing::error!(%stream, fill = state.fill, "a stream is nearly full");
                        }
                        (true, false) => {
                            tracing::info!(%stream, fill = state.fill, "a stream is no longer nearly full");
                        }
                        _ => {}
                    }
                }
                // This line is only for debugging: a process that publishes to the stream gets the error itself.
                Err(error) => tracing::debug!(%stream, %error, "cannot read the state of a stream"),
            }
        }
    }
}
