//! Planning of a batch of chunks, and handling of the chunks that cannot be planned with it.

use std::collections::BTreeMap;

use domain::AppId;
use event_log::DeliveredMessage;
use service_kit::inbound::{Inbound, Owner};
use store::sends::chunk::Chunk;

use crate::intake::Intake;
use crate::orders::Cause;
use crate::planner::{BusyChunks, PlanError, Planner};

/// A chunk to plan, with the fetched message that ordered it.
pub(super) struct OrderedChunk {
    pub(super) delivered: DeliveredMessage,
    pub(super) chunk: Chunk,
    /// Approximate size of the chunk's send in memory, in bytes.
    pub(super) size: usize,
    pub(super) cause: Cause,
}

#[derive(Default)]
pub(super) struct Batch {
    pub(super) chunks: Vec<OrderedChunk>,
    pub(super) recipients: usize,
    pub(super) bytes: usize,
}

impl Batch {
    pub(super) fn add(&mut self, ordered: OrderedChunk) {
        self.recipients += ordered.chunk.send.chunk(ordered.chunk.chunk).len();
        self.bytes += ordered.size;
        self.chunks.push(ordered);
    }
}

impl Intake {
    /// Plans a batch and publishes its messages. Chunks whose users are locked are taken out of the batch and planned alone. If
    /// another lock blocks the batch, the chunks of each app are planned separately, so that only the blocked app waits.
    pub(super) async fn plan_batch(&mut self, batch: Vec<OrderedChunk>) {
        let Err((batch, error)) = self.attempt(batch).await else { return };
        if !error.is_lock_timeout() {
            return self.fail(batch, &error).await;
        }
        tracing::info!(lane = %self.lane, sends = batch.len(), %error, "waiting for a lock timed out; planning the sends of each app separately");
        for batch in by_app(batch) {
            match self.attempt(batch).await {
                Ok(()) => {}
                Err((batch, error)) if error.is_lock_timeout() => {
                    for ordered in batch {
                        self.plan_alone(ordered).await;
                    }
                }
                Err((batch, error)) => self.fail(batch, &error).await,
            }
        }
    }

    /// Handles a failed batch. If the database or the log is unavailable, retries the whole batch later. Otherwise plans each
    /// chunk alone to find the chunk that fails. Only a rejected chunk counts as a failed message. After any other error, such
    /// as a row of a newer release, the chunk is retried later.
    async fn fail(&mut self, batch: Vec<OrderedChunk>, error: &PlanError) {
        if error.is_outage() {
            return self.retry_later(&batch, error).await;
        }
        for ordered in batch {
            match self.attempt(vec![ordered]).await {
                Ok(()) => {}
                Err((one, error)) => fail_alone(&self.inbound, &one, &error).await,
            }
        }
    }

    /// Plans a batch and publishes its messages. If that fails, returns the batch with the error.
    async fn attempt(&mut self, batch: Vec<OrderedChunk>) -> Result<(), (Vec<OrderedChunk>, PlanError)> {
        if batch.is_empty() {
            return Ok(());
        }
        let sizes = batch.iter().map(|ordered| ordered.chunk.send.chunk(ordered.chunk.chunk).len());
        self.largest_chunk = sizes.max().unwrap_or_default().max(self.largest_chunk / 2);
        match plan(&self.planner, &batch, BusyChunks::Skip).await {
            Ok(busy) => {
                for (index, ordered) in batch.into_iter().enumerate() {
                    if busy.contains(&index) {
                        self.plan_alone(ordered).await;
                    } else {
                        done(&self.inbound, &ordered).await;
                    }
                }
                Ok(())
            }
            Err(error) => Err((batch, error)),
        }
    }

    /// Plans a chunk outside of a batch, where it can wait for locks. If all slots of its app are in use, the chunk is retried
    /// soon.
    async fn plan_alone(&self, ordered: OrderedChunk) {
        let Some(slot) = self.alone.try_take(ordered.chunk.app) else {
            tracing::debug!(send_id = %ordered.chunk.send_id, "the users of a send are locked by another transaction; retrying the send later");
            return self.inbound.return_later(&ordered.delivered).await;
        };
        let planner = self.planner.clone();
        let inbound = self.inbound.clone();
        self.context.spawn("a send whose users are busy", async move {
            let one = [ordered];
            match plan(&planner, &one, BusyChunks::Wait).await {
                Ok(_) => done(&inbound, &one[0]).await,
                Err(error) => fail_alone(&inbound, &one, &error).await,
            }
            drop(slot);
            Ok(())
        });
    }

    async fn retry_later(&self, batch: &[OrderedChunk], error: &PlanError) {
        tracing::warn!(lane = %self.lane, sends = batch.len(), %error, "cannot plan sends; retrying them");
        for ordered in batch {
            self.inbound.return_later(&ordered.delivered).await;
        }
    }
}

/// Plans a batch and publishes its messages. Returns the indexes of the chunks that were skipped.
async fn plan(planner: &Planner, batch: &[OrderedChunk], busy: BusyChunks) -> Result<Vec<usize>, PlanError> {
    let chunks: Vec<_> = batch.iter().map(|ordered| ordered.chunk.clone()).collect();
    let causes: Vec<_> = batch.iter().map(|ordered| ordered.cause.clone()).collect();
    planner.plan_and_act(&chunks, &causes, busy).await
}

async fn done(inbound: &Inbound, ordered: &OrderedChunk) {
    tracing::debug!(send_id = %ordered.chunk.send_id, chunk = ordered.chunk.chunk, "dispatched a chunk of a send");
    inbound.acknowledge(&ordered.delivered).await;
}

/// Handles chunks that failed when planned alone: returns their messages to the log, or counts a failure if the chunk itself is
/// at fault.
async fn fail_alone(inbound: &Inbound, failed: &[OrderedChunk], error: &PlanError) {
    for OrderedChunk { delivered, chunk, .. } in failed {
        if error.is_own_failure() {
            let owner = Owner { app: Some(chunk.app), send_id: Some(chunk.send_id) };
            inbound.count_failure(delivered, owner, &error.to_string()).await;
        } else {
            tracing::warn!(send_id = %chunk.send_id, %error, "cannot plan a send; retrying it");
            inbound.return_later(delivered).await;
        }
    }
}

fn by_app(batch: Vec<OrderedChunk>) -> impl Iterator<Item = Vec<OrderedChunk>> {
    let mut parts: BTreeMap<AppId, Vec<OrderedChunk>> = BTreeMap::new();
    for ordered in batch {
        parts.entry(ordered.chunk.app).or_default().push(ordered);
    }
    parts.into_values()
}
