//! Planning a batch of chunks, and what becomes of those that cannot be planned with it.

use std::collections::BTreeMap;

use domain::AppId;
use event_log::Delivered;
use service_kit::inbound::{Inbound, Owner};
use store::sends::chunk::Chunk;

use crate::intake::Intake;
use crate::orders::Cause;
use crate::planner::{Busy, PlanError, Planner};

/// A chunk to plan, with the message that ordered it.
pub(super) struct Ordered {
    pub(super) delivered: Delivered,
    pub(super) chunk: Chunk,
    /// About how many bytes the chunk's send takes in memory.
    pub(super) size: usize,
    pub(super) cause: Cause,
}

/// Chunks that are planned together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) chunks: Vec<Ordered>,
    pub(super) recipients: usize,
    pub(super) bytes: usize,
}

impl Batch {
    pub(super) fn add(&mut self, ordered: Ordered) {
        self.recipients += ordered.chunk.send.chunk(ordered.chunk.chunk).len();
        self.bytes += ordered.size;
        self.chunks.push(ordered);
    }
}

impl Intake {
    /// Plans and acts on a batch. Chunks whose users are busy leave it, to be planned alone. If another lock keeps the batch
    /// waiting, the chunks of each app are planned by themselves, so that those of one app alone wait.
    pub(super) async fn carry_out(&mut self, batch: Vec<Ordered>) {
        let Err((batch, error)) = self.attempt(batch).await else { return };
        if !error.is_lock_timeout() {
            return self.fail(batch, &error).await;
        }
        tracing::info!(lane = %self.lane, sends = batch.len(), %error, "a lock is not free; planning app by app");
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

    /// Unless the database or the log failed, the one at fault is found by taking each alone: what is refused as such is
    /// counted, anything else, such as a row of a newer release, is tried again later.
    async fn fail(&mut self, batch: Vec<Ordered>, error: &PlanError) {
        if error.is_outage() {
            return self.put_off(&batch, error).await;
        }
        for ordered in batch {
            match self.attempt(vec![ordered]).await {
                Ok(()) => {}
                Err((one, error)) => fail_alone(&self.inbound, &one, &error).await,
            }
        }
    }

    /// Plans and acts on a batch, which it returns if that failed.
    async fn attempt(&mut self, batch: Vec<Ordered>) -> Result<(), (Vec<Ordered>, PlanError)> {
        if batch.is_empty() {
            return Ok(());
        }
        let sizes = batch.iter().map(|ordered| ordered.chunk.send.chunk(ordered.chunk.chunk).len());
        self.largest_chunk = sizes.max().unwrap_or_default().max(self.largest_chunk / 2);
        match plan(&self.planner, &batch, Busy::LeftOut).await {
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

    /// Plans a chunk outside the batches, where it waits for what is locked. An app has a few places there: with none free,
    /// its chunk comes again in a moment.
    async fn plan_alone(&self, ordered: Ordered) {
        let Some(slot) = self.alone.try_take(ordered.chunk.app) else {
            tracing::debug!(send_id = %ordered.chunk.send_id, "its users are busy; the send comes again");
            return self.inbound.again(&ordered.delivered).await;
        };
        let (planner, inbound) = (self.planner.clone(), self.inbound.clone());
        self.context.spawn("a send whose users are busy", async move {
            let one = [ordered];
            match plan(&planner, &one, Busy::AwaitedFor).await {
                Ok(_) => done(&inbound, &one[0]).await,
                Err(error) => fail_alone(&inbound, &one, &error).await,
            }
            drop(slot);
            Ok(())
        });
    }

    async fn put_off(&self, batch: &[Ordered], error: &PlanError) {
        tracing::warn!(lane = %self.lane, sends = batch.len(), %error, "cannot plan now; the sends come again");
        for ordered in batch {
            self.inbound.again(&ordered.delivered).await;
        }
    }
}

/// Returns the positions of the chunks that were left out.
async fn plan(planner: &Planner, batch: &[Ordered], busy: Busy) -> Result<Vec<usize>, PlanError> {
    let chunks: Vec<_> = batch.iter().map(|ordered| ordered.chunk.clone()).collect();
    let causes: Vec<_> = batch.iter().map(|ordered| ordered.cause.clone()).collect();
    planner.carry_out(&chunks, &causes, busy).await
}

async fn done(inbound: &Inbound, ordered: &Ordered) {
    tracing::debug!(send_id = %ordered.chunk.send_id, chunk = ordered.chunk.chunk, "dispatched");
    inbound.done(&ordered.delivered).await;
}

/// Returns chunks that failed by themselves, and counts the failure if it is their own.
async fn fail_alone(inbound: &Inbound, failed: &[Ordered], error: &PlanError) {
    for Ordered { delivered, chunk, .. } in failed {
        if error.is_own_failure() {
            let owner = Owner { app: Some(chunk.app), send_id: Some(chunk.send_id) };
            inbound.failed_by_itself(delivered, owner, &error.to_string()).await;
        } else {
            tracing::warn!(send_id = %chunk.send_id, %error, "a send cannot be planned yet; it comes again");
            inbound.again(delivered).await;
        }
    }
}

/// The batch in parts, one of each app.
fn by_app(batch: Vec<Ordered>) -> impl Iterator<Item = Vec<Ordered>> {
    let mut parts: BTreeMap<AppId, Vec<Ordered>> = BTreeMap::new();
    for ordered in batch {
        parts.entry(ordered.chunk.app).or_default().push(ordered);
    }
    parts.into_values()
}
