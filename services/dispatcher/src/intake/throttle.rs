use std::collections::HashMap;
use std::time::{Duration, Instant};

use domain::{Lane, StreamName};
use service_kit::Context;

use crate::backpressure::Backpressure;

/// Lag of an inbox partition, in items, above which bulk sends wait. A lower lag delays inbox items of transactional sends only briefly.
const INBOX_BACKLOG: usize = 100;
/// Maximum wait while the lag is at most [`INBOX_EVENTS`]. Waiting longer would not help if no process projects the inbox.
const INBOX_PATIENCE: Duration = Duration::from_secs(1);
/// Lag of an inbox partition, in events, above which bulk sends always wait.
const INBOX_EVENTS: u64 = 1_000;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Throttle {
    context: Context,
    backpressure: Backpressure,
    lane: Lane,
}

impl Throttle {
    pub(super) fn new(context: Context, backpressure: Backpressure, lane: Lane) -> Throttle {
        Throttle { context, backpressure, lane }
    }

    pub(super) async fn wait_until_open(&self, largest_batch: usize) {
        let begin = Instant::now();
        while self.backpressure.full_stream_for(self.lane).is_some()
            || (self.lane == Lane::Bulk && self.is_inbox_behind(begin.elapsed(), largest_batch).await)
        {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns true if bulk sends would delay the inbox items of transactional sends.
    async fn is_inbox_behind(&self, waited: Duration, largest_batch: usize) -> bool {
        let most = if waited < INBOX_PATIENCE {
            inbox_backlog(largest_batch, self.context.partitions)
        } else {
            INBOX_EVENTS
        };
        match self.max_inbox_lag().await {
            Ok(events) => events > most,
            Err(error) => {
                tracing::debug!(
                    error = format!("{error:#}"),
                    "cannot read inbox lag; not throttling the bulk lane"
                );
                false
            }
        }
    }

    /// Lag of the slowest partition, in events.
    async fn max_inbox_lag(&self) -> anyhow::Result<u64> {
        let projected: HashMap<String, u64> =
            self.context.store.inbox().positions().await?.into_iter().collect();
        let mut furthest = 0;
        for stream in (0..self.context.partitions).map(StreamName::Inbox) {
            let position = projected.get(&stream.to_string()).copied().unwrap_or_default();
            let last = self.context.log.state(stream).await?.last_seq;
            furthest = furthest.max(last.saturating_sub(position));
        }
        Ok(furthest)
    }
}

/// Converts [`INBOX_BACKLOG`] to messages. A batch produces one message in each partition.
fn inbox_backlog(recipients: usize, partitions: u32) -> u64 {
    let items = recipients.div_ceil(partitions.max(1) as usize).max(1);
    (INBOX_BACKLOG / items).max(1) as u64
}
