//! Planning of a batch of chunks: freezes the decisions, and publishes the messages that they require.

use std::sync::Arc;

use metrics::{counter, histogram};
use planning::{ContentRenderer, decide_chunk};
use sabotage::CrashPoint;
use service_kit::append::{NewEvent, append_or_set_timers};
use service_kit::metrics::{ACCEPT_TO_PLAN_SECONDS, DISPATCHED};
use service_kit::{Context, clock};
use store::sends::chunk::Chunk;
use store::sends::facts::Facts;
use store::sends::plan::ChunkLocks;

use crate::chunk_messages::{Cause, FrozenChunk, MessageBuffer, Progress};
use crate::compiled_templates::CompiledTemplates;
use crate::expansion::{is_of_recipients, next_expansion};
use crate::inbox_events;
use crate::plan_error::PlanError;

/// Planner of batches of chunks. Clones share the compiled templates.
#[derive(Clone)]
pub(crate) struct Planner {
    context: Context,
    templates: Arc<CompiledTemplates>,
}

/// Treatment of chunks whose users are locked by another transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BusyChunks {
    /// Do not plan these chunks.
    Skip,
    /// Wait for the locks, for a few seconds.
    Wait,
}

impl Planner {
    pub(crate) fn new(context: Context) -> Planner {
        Planner { context, templates: Arc::default() }
    }

    /// Freezes the plans of the chunks, then publishes their messages. Returns the indexes of the chunks that were skipped
    /// because another transaction has locked their users. All other chunks are then completely published.
    pub(crate) async fn plan_and_publish(
        &self,
        chunks: &[Chunk],
        causes: &[Cause],
        busy: BusyChunks,
    ) -> Result<Vec<usize>, PlanError> {
        let locks = match busy {
            BusyChunks::Skip => self.context.store.sends().lock_free_chunks(chunks).await?,
            BusyChunks::Wait => self.context.store.sends().lock_all_chunks(chunks).await?,
        };
        let (skipped, free): (Vec<_>, Vec<_>) = (0..chunks.len()).partition(|&index| locks.is_busy(index));
        if !free.is_empty() {
            let chunks: Vec<_> = free.iter().map(|&index| chunks[index].clone()).collect();
            let causes: Vec<_> = free.iter().map(|&index| causes[index].clone()).collect();
            self.freeze_and_publish(locks, &chunks, &causes).await?;
        }
        Ok(skipped)
    }

    async fn freeze_and_publish(
        &self,
        locks: ChunkLocks,
        chunks: &[Chunk],
        causes: &[Cause],
    ) -> Result<(), PlanError> {
        chunks.iter().filter_map(|chunk| chunk.send.content.title.as_deref()).for_each(sabotage::handle);
        let mut freeze = locks.freeze(chunks).await?;
        let facts = freeze.write_profiles_and_read_facts().await?;
        if let Some(chunk) = chunk_without_template(chunks, &facts) {
            return Err(PlanError::NoTemplate { app: chunk.app, send_id: chunk.send_id });
        }
        let templates: Vec<_> =
            (0..chunks.len()).map(|index| self.templates.of(chunks[index].app, &facts, index)).collect();
        let mut decisions = Vec::with_capacity(chunks.len());
        for (index, chunk) in chunks.iter().enumerate() {
            decisions.push(if freeze.is_new(index) {
                decide_chunk(chunk, &facts, index, templates[index].as_deref())
            } else {
                let stored = freeze.stored_decisions(index).await?;
                if !is_of_recipients(&stored, chunk) || !freeze.has_stored_end(index).await? {
                    return Err(PlanError::FrozenMeanwhile { send_id: chunk.send_id });
                }
                stored
            });
        }
        freeze.commit(&facts, &decisions).await?;
        sabotage::reach(CrashPoint::AfterFreeze);

        let frozen: Vec<_> = (0..chunks.len())
            .map(|index| FrozenChunk {
                chunk: &chunks[index],
                decisions: &decisions[index],
                facts: &facts,
                position: index,
                renderer: ContentRenderer::new(
                    &chunks[index].send,
                    templates[index].as_deref(),
                    facts.app_name(chunks[index].app),
                    facts.category(index).map(Arc::as_ref),
                )
                .with_template_profile(facts.template_profile(chunks[index].app)),
                partitions: self.context.partitions,
                now: clock::now(),
                cause: &causes[index],
            })
            .collect();
        self.publish_chunks(&frozen).await
    }

    /// Publishes the messages slice by slice. The messages that ask for the next chunks come last, when all other messages are in
    /// the log.
    async fn publish_chunks(&self, frozen: &[FrozenChunk<'_>]) -> Result<(), PlanError> {
        let mut buffer = MessageBuffer::default();
        for chunk in frozen {
            let mut progress = Progress::default();
            while chunk.render_messages(&mut progress, &mut buffer)? {
                self.publish_slice(frozen, std::mem::take(&mut buffer)).await?;
            }
        }
        self.publish_slice(frozen, buffer).await?;
        let mut next = Vec::new();
        for frozen in frozen.iter().filter(|frozen| !frozen.chunk.is_last()) {
            next.push(frozen.next_chunk_message(next_expansion(&self.context.store, frozen).await?)?);
        }
        self.publish(next).await?;
        for FrozenChunk { chunk, .. } in frozen.iter().filter(|frozen| frozen.chunk.is_last()) {
            if chunk.send.needs_stored_body() {
                self.context.store.sends().drop_body(chunk.app, chunk.send_id, chunk.chunk).await?;
            }
            let lane = chunk.send.lane.as_str();
            let due = chunk.send.send_at.unwrap_or(chunk.accepted_at);
            counter!(DISPATCHED, "lane" => lane).increment(1);
            histogram!(ACCEPT_TO_PLAN_SECONDS, "lane" => lane).record(clock::now().since(due).as_secs_f64());
        }
        Ok(())
    }

    /// Publishes a slice. Adds the outcomes of deliveries that ended because they could not be rendered.
    async fn publish_slice(
        &self,
        frozen: &[FrozenChunk<'_>],
        mut slice: MessageBuffer,
    ) -> Result<(), PlanError> {
        for ended in self.context.store.sends().record_render_failures(&slice.failures).await? {
            if let Some(chunk) = frozen.iter().find(|chunk| chunk.is_of_send(&ended)) {
                slice.push(chunk.outcome_message(ended)?);
            }
        }
        let mut events = inbox_events::encode(slice.inbox)?;
        events.append(&mut slice.messages);
        self.publish(events).await
    }

    /// Publishes every message. If a stream is full, the message becomes a timer.
    async fn publish(&self, events: Vec<NewEvent>) -> Result<(), PlanError> {
        Ok(append_or_set_timers(&self.context.log, &self.context.store, &events).await?)
    }
}

/// Returns the first chunk whose template is missing. The template existed when the send was accepted, so the chunk waits
/// until the template exists again. Its deliveries must not fail meanwhile, because their jobs may already be in the log.
fn chunk_without_template<'t>(chunks: &'t [Chunk], facts: &Facts) -> Option<&'t Chunk> {
    let mut numbered = chunks.iter().enumerate();
    let is_missing =
        |index: usize, chunk: &Chunk| chunk.send.template.is_some() && facts.template(index).is_none();
    let missing = numbered.find(|(index, chunk)| is_missing(*index, chunk) && !facts.is_cancelled(chunk));
    missing.map(|(_, chunk)| chunk)
}
