//! Fullness of streams, for processes that publish to them.
//!
//! From [`DISPATCHER_STOPS`] on, the dispatcher adds nothing to a stream: sends can wait in their own stream. From
//! [`GATEWAY_STOPS`] on, the gateway refuses requests. The rest is reserved for messages that must not be refused: outcomes and
//! erasures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::StreamName;
use event_log::EventLog;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Used share of a stream's limit from which on the dispatcher adds nothing to it.
pub const DISPATCHER_STOPS: f64 = 0.8;
/// Used share of a stream's limit from which on the gateway refuses requests.
pub const GATEWAY_STOPS: f64 = 0.9;
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Fullness of streams at their last check. Clones share it.
#[derive(Clone, Debug)]
pub struct Fullness {
    limit: f64,
    streams: Arc<[(StreamName, AtomicU64)]>,
}

impl Fullness {
    /// Creates the state of `streams`, none of which counts as full yet. A stream counts as full from the share `limit` (0 to 1)
    /// on.
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

    /// Lists the streams of which at least `share` was used when they were last checked.
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
                            tracing::info!(%stream, fill = state.fill, "a stream has room again");
                        }
                        _ => {}
                    }
                }
                // Publishing to the stream reports the error to the caller.
                Err(error) => tracing::debug!(%stream, %error, "cannot read the state of a stream"),
            }
        }
    }
}
