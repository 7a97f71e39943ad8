//! Which streams are nearly full. What room they have left is for what must not be refused, such as erasures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::{Lane, StreamName};
use event_log::EventLog;
use service_kit::Context;
use tokio::time::sleep;

/// The share of a stream's room from which on requests are refused.
const FULL: f64 = 0.9;
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The streams that requests write to, and whether each is nearly full. Clones share it.
#[derive(Clone)]
pub(crate) struct Fullness {
    streams: Arc<[(StreamName, AtomicBool)]>,
}

impl Fullness {
    /// Nothing is full as far as is known.
    pub(crate) fn new(partitions: u32) -> Fullness {
        let sends = Lane::ALL.iter().map(|&lane| StreamName::Send(lane));
        let streams = sends.chain((0..partitions).map(StreamName::Inbox));
        Fullness { streams: streams.map(|stream| (stream, AtomicBool::new(false))).collect() }
    }

    /// Whether the stream was nearly full when it was last looked at.
    pub(crate) fn is_full(&self, stream: StreamName) -> bool {
        let known = self.streams.iter().find(|(name, _)| *name == stream);
        known.is_some_and(|(_, full)| full.load(Ordering::Relaxed))
    }

    /// Looks at every stream each second until the process stops.
    pub(crate) async fn follow_until_stopped(self, context: Context) -> anyhow::Result<()> {
        let token = context.tasks.token();
        while token.run_until_cancelled(self.look(&context.log)).await.is_some() {
            token.run_until_cancelled(sleep(LOOK_INTERVAL)).await;
        }
        Ok(())
    }

    async fn look(&self, log: &EventLog) {
        for (stream, full) in self.streams.iter() {
            match log.state(*stream).await {
                Ok(state) => {
                    let is_full = state.fill >= FULL;
                    if is_full && !full.swap(is_full, Ordering::Relaxed) {
                        tracing::error!(%stream, fill = state.fill, "a stream is nearly full; refusing requests");
                    }
                    full.store(is_full, Ordering::Relaxed);
                }
                // Appending to it will tell the caller.
                Err(error) => return tracing::debug!(%stream, %error, "a stream cannot be looked at"),
            }
        }
    }
}
