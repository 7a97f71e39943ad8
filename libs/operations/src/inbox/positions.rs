//! Progress of the inbox projection. A change to an inbox ends after the projection has applied it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use event_log::{Position, Positions as Announcements};
use fairness::waiting::remaining_time;
use service_kit::Context;
use store::Store;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Interval at which the checkpoints are read while requests wait. Reading is necessary because announcements of new
/// checkpoints may be lost.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pause before the next attempt to subscribe to the announcements.
const SUBSCRIBE_INTERVAL: Duration = Duration::from_secs(1);

/// Highest sequence of each partition that the projection is known to have committed. Clones share the state.
#[derive(Clone)]
pub struct Positions {
    reached: Arc<[watch::Sender<u64>]>,
    waiter_arrived: Arc<Notify>,
}

impl Positions {
    /// Creates positions with sequence 0 for every partition.
    pub fn new(partitions: u32) -> Positions {
        let reached = (0..partitions).map(|_| watch::Sender::new(0)).collect();
        Positions { reached, waiter_arrived: Arc::default() }
    }

    /// Waits until the projection has committed the sequence `seq` of a partition. Returns false if that takes longer than
    /// `limit`, or longer than the remaining waiting time of the request.
    pub async fn reach(&self, partition: u32, seq: u64, limit: Duration) -> bool {
        let Some(reached) = self.reached.get(partition as usize) else {
            return false;
        };
        let mut reached = reached.subscribe();
        self.waiter_arrived.notify_one();
        matches!(timeout(remaining_time(limit), reached.wait_for(|at| *at >= seq)).await, Ok(Ok(_)))
    }

    /// Returns the highest sequence of a partition that the projection is known to have committed.
    pub fn current(&self, partition: u32) -> u64 {
        self.reached.get(partition as usize).map_or(0, |reached| *reached.borrow())
    }

    /// Waits until the projection has committed the sequence `seq` of a partition.
    pub async fn reached(&self, partition: u32, seq: u64) {
        let Some(reached) = self.reached.get(partition as usize) else {
            return pending().await;
        };
        let mut reached = reached.subscribe();
        self.waiter_arrived.notify_one();
        // The sender is in `self`, so the channel is open.
        if reached.wait_for(|at| *at >= seq).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Updates the positions from announcements until `end` is cancelled. While requests wait, also reads the checkpoints
    /// regularly.
    pub async fn follow_until(self, end: CancellationToken, context: Context) -> anyhow::Result<()> {
        tokio::select! {
            () = end.cancelled() => Ok(()),
            () = self.poll(&context.store) => bail!("polling ended"),
            () = self.listen(&context) => bail!("listening ended"),
        }
    }

    /// Reads the checkpoints regularly while requests wait. Usually an announcement arrives before the first reading.
    async fn poll(&self, store: &Store) {
        loop {
            sleep(POLL_INTERVAL).await;
            if self.reached.iter().all(|reached| reached.receiver_count() == 0) {
                self.waiter_arrived.notified().await;
                continue;
            }
            match store.inbox().positions().await {
                Ok(positions) => positions.into_iter().for_each(|(stream, seq)| self.note(&stream, seq)),
                Err(error) => tracing::warn!(%error, "cannot read the inbox checkpoints; retrying"),
            }
        }
    }

    async fn listen(&self, context: &Context) {
        loop {
            match context.log.positions().await {
                Ok(announcements) => self.note_all(announcements).await,
                Err(error) => tracing::warn!(%error, "cannot subscribe to inbox checkpoints; retrying"),
            }
            sleep(SUBSCRIBE_INTERVAL).await;
        }
    }

    async fn note_all(&self, mut announcements: Announcements) {
        while let Some(Position { stream, seq }) = announcements.next().await {
            self.note(&stream, seq);
        }
    }

    pub fn note(&self, stream: &str, seq: u64) {
        let partition = stream.strip_prefix("INBOX_").and_then(|number| number.parse::<usize>().ok());
        let Some(reached) = partition.and_then(|partition| self.reached.get(partition)) else {
            return;
        };
        reached.send_if_modified(|at| {
            let ahead = seq > *at;
            *at = seq.max(*at);
            ahead
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Positions;

    const AT_ONCE: Duration = Duration::ZERO;

    #[tokio::test]
    async fn only_its_own_stream_advances_a_partition_and_its_position_never_decreases() {
        let positions = Positions::new(2);
        positions.note("INBOX_1", 7);
        positions.note("INBOX_1", 3);
        positions.note("INBOX_2", 9);
        positions.note("OUTCOME", 9);
        assert!(positions.reach(1, 7, AT_ONCE).await);
        assert!(!positions.reach(1, 8, AT_ONCE).await);
        assert!(!positions.reach(0, 1, AT_ONCE).await);
        assert!(!positions.reach(2, 1, AT_ONCE).await);
    }

    #[tokio::test]
    async fn a_waiting_request_resumes_once_its_sequence_is_reached() {
        let positions = Positions::new(1);
        let waiting = tokio::spawn({
            let positions = positions.clone();
            async move { positions.reach(0, 2, Duration::from_secs(10)).await }
        });
        positions.note("INBOX_0", 1);
        positions.note("INBOX_0", 2);
        assert!(waiting.await.unwrap());
    }
}
