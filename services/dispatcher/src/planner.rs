use std::sync::Arc;

use metrics::{counter, histogram};
use planning::{ContentRenderer, EmailLook, decide_chunk};
use sabotage::CrashPoint;
use service_kit::append::{NewEvent, append_or_set_timers};
use service_kit::metrics::{ACCEPT_TO_PLAN_SECONDS, DISPATCHED};
use service_kit::{Context, clock};
use store::sends::chunk::Chunk;
use store::sends::plan::{BusyLocks, ChunkLocks};
use store::sends::planned_chunk::PlannedChunk;

use crate::chunk_messages::{FrozenChunk, MessageBuffer, Progress};
use crate::compiled_templates::CompiledTemplates;
use crate::expansion::next_expansion;
use crate::inbox_events;
use crate::plan_error::PlanError;

/// Clones share the compiled templates.
#[derive(Clone)]
pub(crate) struct Planner {
    context: Context,
    templates: Arc<CompiledTemplates>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BusyChunks {
    Skip,
    /// Waits for a few seconds.
    Wait,
}

impl Planner {
    pub(crate) fn new(context: Context) -> Planner {
        Planner { context, templates: Arc::default() }
    }

    /// Returns the locks that other transactions hold: chunks that need them were skipped. All other chunks are then completely published.
    pub(crate) async fn plan_and_publish(
        &self,
        mut chunks: Vec<Chunk>,
        busy: BusyChunks,
    ) -> Result<BusyLocks, PlanError> {
        let sends = self.context.store.sends();
        let (locks, busy) = match busy {
            BusyChunks::Skip => sends.lock_free_chunks(&chunks).await?,
            BusyChunks::Wait => (sends.lock_all_chunks(&chunks).await?, BusyLocks::default()),
        };
        chunks.retain(|chunk| !busy.are_needed_by(chunk));
        if !chunks.is_empty() {
            self.freeze_and_publish(locks, chunks).await?;
        }
        Ok(busy)
    }

    async fn freeze_and_publish(&self, locks: ChunkLocks, chunks: Vec<Chunk>) -> Result<(), PlanError> {
        chunks.iter().filter_map(|chunk| chunk.send.content.title.as_deref()).for_each(sabotage::handle);
        let mut freeze = locks.freeze(chunks).await?;
        let facts = freeze.write_profiles_and_read_facts().await?;
        // The template existed when the send was accepted, so the chunk waits until the template exists again. Its deliveries must
        // not fail meanwhile, because their jobs may already be in the log.
        let mut without_template = freeze.chunks.iter().filter(|planned| planned.lacks_template());
        if let Some(PlannedChunk { chunk, .. }) =
            without_template.find(|planned| !facts.is_cancelled(&planned.chunk))
        {
            return Err(PlanError::NoTemplate { app: chunk.app, send_id: chunk.send_id });
        }
        if let Some(send_id) = freeze.read_stored_decisions().await? {
            return Err(PlanError::FrozenMeanwhile { send_id });
        }
        let templates = self.templates.of(&freeze.chunks, &facts);
        for planned in freeze.chunks.iter_mut().filter(|planned| planned.is_new) {
            planned.decisions = decide_chunk(planned, &facts, templates.of(planned));
        }
        let chunks = freeze.commit(&facts).await?;
        sabotage::reach(CrashPoint::AfterFreeze);

        let frozen = chunks.iter().map(|planned| {
            let PlannedChunk { chunk, category, .. } = planned;
            let app_name = facts.app_name(chunk.app);
            let template = templates.of(planned);
            let look = EmailLook {
                brand: facts.brand(chunk.app),
                layout: templates.layout_of(chunk.app, &facts),
                unsubscribe: planned.category_with_preferences().is_some()
                    && self.context.public_url().is_some(),
            };
            let renderer = ContentRenderer::new(&chunk.send, template, app_name, look, category.as_deref())
                .with_template_profile(facts.template_profile(chunk.app));
            let (partitions, now) = (self.context.partitions, clock::now());
            FrozenChunk { planned, facts: &facts, renderer, partitions, now }
        });
        self.publish_chunks(&frozen.collect::<Vec<_>>()).await
    }

    /// Publishes the messages that ask for the next chunks last, when all other messages are in the log.
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
        for frozen in frozen.iter().filter(|frozen| !frozen.chunk().is_last()) {
            next.push(frozen.next_chunk_message(next_expansion(&self.context.store, frozen).await?)?);
        }
        self.publish(next).await?;
        for chunk in frozen.iter().map(FrozenChunk::chunk).filter(|chunk| chunk.is_last()) {
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

    /// Adds the outcomes of deliveries that ended because they could not be rendered.
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

    /// Turns a message into a timer if its stream is full.
    async fn publish(&self, events: Vec<NewEvent>) -> Result<(), PlanError> {
        Ok(append_or_set_timers(&self.context.log, &self.context.store, &events).await?)
    }
}
