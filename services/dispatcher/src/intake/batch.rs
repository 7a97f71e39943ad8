//! Planning of chunks in batches. A chunk that cannot be planned with its batch is planned alone.

use std::collections::BTreeMap;

use domain::AppId;
use event_log::DeliveredMessage;
use service_kit::work_stream::{Owner, WorkStream};
use store::sends::chunk::Chunk;

use crate::intake::Intake;
use crate::plan_error::PlanError;
use crate::planner::BusyChunks;

pub(super) struct FetchedChunk {
    pub(super) delivered: DeliveredMessage,
    pub(super) chunk: Chunk,
    /// Approximate size of the chunk's send in memory, in bytes.
    pub(super) size: usize,
}

#[derive(Default)]
pub(super) struct ChunkBatch {
    pub(super) chunks: Vec<FetchedChunk>,
    pub(super) recipients: usize,
    pub(super) bytes: usize,
}

impl ChunkBatch {
    pub(super) fn add(&mut self, fetched: FetchedChunk) {
        self.recipients += fetched.chunk.recipients().len();
        self.bytes += fetched.size;
        self.chunks.push(fetched);
    }
}

impl Intake {
    /// Plans chunks alone if another transaction has locked their users. If any other lock blocks the batch, the chunks of each app are
    /// planned separately, so that only the blocked app waits.
    pub(super) async fn plan_batch(&mut self, batch: Vec<FetchedChunk>) {
        let Err((batch, error)) = self.try_plan(batch).await else { return };
        if !error.is_lock_timeout() {
            return self.handle_failure(batch, &error).await;
        }
        tracing::info!(lane = %self.lane, sends = batch.len(), %error, "waiting for a lock timed out; planning the sends of each app separately");
        for batch in by_app(batch) {
            match self.try_plan(batch).await {
                Ok(()) => {}
                Err((batch, error)) if error.is_lock_timeout() => {
                    for fetched in batch {
                        self.plan_alone(fetched).await;
                    }
                }
                Err((batch, error)) => self.handle_failure(batch, &error).await,
            }
        }
    }

    /// Retries the whole batch later if the database or the log is unavailable. Otherwise plans each chunk alone to find the chunk that
    /// fails. Only a rejected chunk counts as a failed message. After any other error, such as a row that a newer release wrote, the chunk
    /// is retried later.
    async fn handle_failure(&mut self, batch: Vec<FetchedChunk>, error: &PlanError) {
        if error.is_outage() {
            return self.retry_later(&batch, error).await;
        }
        for fetched in batch {
            match self.try_plan(vec![fetched]).await {
                Ok(()) => {}
                Err((failed, error)) => {
                    for fetched in &failed {
                        return_failed(&self.work_stream, fetched, &error).await;
                    }
                }
            }
        }
    }

    async fn try_plan(&mut self, batch: Vec<FetchedChunk>) -> Result<(), (Vec<FetchedChunk>, PlanError)> {
        if batch.is_empty() {
            return Ok(());
        }
        let sizes = batch.iter().map(|fetched| fetched.chunk.recipients().len());
        self.largest_batch = sizes.clone().sum::<usize>().max(self.largest_batch / 2);
        self.largest_chunk = sizes.max().unwrap_or_default().max(self.largest_chunk / 2);
        let chunks = batch.iter().map(|fetched| fetched.chunk.clone()).collect();
        match self.planner.plan_and_publish(chunks, BusyChunks::Skip).await {
            Ok(busy) => {
                for fetched in batch {
                    if busy.are_needed_by(&fetched.chunk) {
                        self.plan_alone(fetched).await;
                    } else {
                        acknowledge(&self.work_stream, &fetched).await;
                    }
                }
                Ok(())
            }
            Err(error) => Err((batch, error)),
        }
    }

    /// Waits for locks, unlike a batch. If all slots of its app are in use, the chunk is retried soon.
    async fn plan_alone(&self, fetched: FetchedChunk) {
        let Some(slot) = self.alone.try_take(fetched.chunk.app) else {
            tracing::debug!(send_id = %fetched.chunk.send_id, "the users of a send are locked by another transaction; retrying the send later");
            return self.work_stream.return_later(&fetched.delivered).await;
        };
        let planner = self.planner.clone();
        let work_stream = self.work_stream.clone();
        self.context.spawn("a send whose users are busy", async move {
            match planner.plan_and_publish(vec![fetched.chunk.clone()], BusyChunks::Wait).await {
                Ok(_) => acknowledge(&work_stream, &fetched).await,
                Err(error) => return_failed(&work_stream, &fetched, &error).await,
            }
            drop(slot);
            Ok(())
        });
    }

    async fn retry_later(&self, batch: &[FetchedChunk], error: &PlanError) {
        tracing::warn!(lane = %self.lane, sends = batch.len(), %error, "cannot plan sends; retrying them");
        let delivered: Vec<_> = batch.iter().map(|fetched| &fetched.delivered).collect();
        self.work_stream.return_all_later(&delivered).await;
    }
}

async fn acknowledge(work_stream: &WorkStream, fetched: &FetchedChunk) {
    tracing::debug!(send_id = %fetched.chunk.send_id, chunk = fetched.chunk.chunk, "dispatched a chunk of a send");
    work_stream.acknowledge(&fetched.delivered).await;
}

/// Counts a failure only if the chunk itself is at fault.
async fn return_failed(work_stream: &WorkStream, failed: &FetchedChunk, error: &PlanError) {
    let FetchedChunk { delivered, chunk, .. } = failed;
    if error.is_own_failure() {
        let owner = Owner { app: Some(chunk.app), send_id: Some(chunk.send_id) };
        work_stream.count_failure(delivered, owner, &error.to_string()).await;
    } else {
        tracing::warn!(send_id = %chunk.send_id, %error, "cannot plan a send; retrying it");
        work_stream.return_later(delivered).await;
    }
}

fn by_app(batch: Vec<FetchedChunk>) -> impl Iterator<Item = Vec<FetchedChunk>> {
    let mut parts: BTreeMap<AppId, Vec<FetchedChunk>> = BTreeMap::new();
    for fetched in batch {
        parts.entry(fetched.chunk.app).or_default().push(fetched);
    }
    parts.into_values()
}
