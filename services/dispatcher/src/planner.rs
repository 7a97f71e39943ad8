//! Freezing a batch of chunks and acting on what was decided.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::TemplateId;
use domain::{AppId, DeliveryId, SendId};
use event_log::{Message, PublishError, Refusal};
use metrics::{counter, histogram};
use planning::{Template, Writer, decide};
use sabotage::{CrashPoint, Mutant};
use service_kit::metrics::{ACCEPT_TO_PLAN_SECONDS, DISPATCHED};
use service_kit::{Context, clock};
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use store::sends::facts::Facts;
use store::sends::plan::Hold;

use crate::orders::{Cause, FrozenChunk, Order, Orders, Progress};

/// Compiled templates to keep.
const MAX_COMPILED: usize = 1_000;

/// Why a batch could not be finished. Whatever was frozen stays so, and repeating finishes it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("a message cannot be written: {0}")]
    Encode(#[from] serde_json::Error),
    /// Accepted with a template that a backup did not have.
    #[error(
        "send {send_id} of app {app} waits for its template, or the version that it was planned with: put it again"
    )]
    NoTemplate { app: AppId, send_id: SendId },
}

impl PlanError {
    /// Whether the database or the log cannot do it now, for whichever messages.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            PlanError::Store(error) => error.is_unavailable(),
            PlanError::Publish(_) => !self.is_own_failure(),
            PlanError::Encode(_) | PlanError::NoTemplate { .. } => false,
        }
    }

    /// Whether a lock that another transaction holds was not free in time.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, PlanError::Store(error) if error.is_lock_timeout())
    }

    /// Whether the messages themselves are at fault, so that repeating cannot help.
    pub(crate) fn is_own_failure(&self) -> bool {
        match self {
            PlanError::Store(error) => error.is_refused_data(),
            PlanError::Publish(PublishError::Refused { refusal: Refusal::TooLarge, .. })
            | PlanError::Encode(_) => true,
            PlanError::Publish(_) | PlanError::NoTemplate { .. } => false,
        }
    }
}

type Compiled = HashMap<(AppId, TemplateId, i32), Arc<Template>>;

/// Plans and acts, batch by batch. Clones share the compiled templates.
#[derive(Clone)]
pub(crate) struct Planner {
    context: Context,
    compiled: Arc<Mutex<Compiled>>,
}

/// Whether planning waits for users whose rows are locked elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Chunks that need them are left out.
    LeftOut,
    /// It waits for a few seconds.
    AwaitedFor,
}

impl Planner {
    pub(crate) fn new(context: Context) -> Planner {
        Planner { context, compiled: Arc::default() }
    }

    /// Freezes the chunks, then publishes what was decided. When it returns without error, every chunk has been acted
    /// on, but for those whose positions it returns: they need what is locked elsewhere.
    pub(crate) async fn carry_out(
        &self,
        chunks: &[Chunk],
        causes: &[Cause],
        busy: Busy,
    ) -> Result<Vec<usize>, PlanError> {
        let hold = match busy {
            Busy::LeftOut => self.context.store.hold_free(chunks).await?,
            Busy::AwaitedFor => self.context.store.hold_all(chunks).await?,
        };
        let (left_out, free): (Vec<_>, Vec<_>) = (0..chunks.len()).partition(|&index| hold.is_busy(index));
        if !free.is_empty() {
            let chunks: Vec<_> = free.iter().map(|&index| chunks[index].clone()).collect();
            let causes: Vec<_> = free.iter().map(|&index| causes[index].clone()).collect();
            self.carry_out_held(hold, &chunks, &causes).await?;
        }
        Ok(left_out)
    }

    async fn carry_out_held(&self, hold: Hold, chunks: &[Chunk], causes: &[Cause]) -> Result<(), PlanError> {
        let mut freeze = hold.freeze(chunks).await?;
        let facts = freeze.facts().await?;
        if let Some(chunk) = without_template(chunks, &facts) {
            return Err(PlanError::NoTemplate { app: chunk.app, send_id: chunk.send_id });
        }
        let templates: Vec<_> =
            (0..chunks.len()).map(|index| self.compile(chunks[index].app, &facts, index)).collect();
        let mut decisions = Vec::with_capacity(chunks.len());
        for (index, chunk) in chunks.iter().enumerate() {
            decisions.push(if freeze.is_new(index) || sabotage::is(Mutant::PlanNotFrozen) {
                decide(chunk, &facts, index, templates[index].as_deref())
            } else {
                freeze.stored(index).await?
            });
        }
        if sabotage::is(Mutant::RandomDeliveryIds) {
            let decided = decisions.iter_mut().flatten().flat_map(|(_, decision)| &mut decision.deliveries);
            decided.for_each(|delivery| delivery.id = DeliveryId(clock::new_id()));
        }
        freeze.commit(&facts, &decisions).await?;
        sabotage::reach(CrashPoint::AfterFreeze);

        let frozen: Vec<_> = (0..chunks.len())
            .map(|index| FrozenChunk {
                chunk: &chunks[index],
                decisions: &decisions[index],
                facts: &facts,
                position: index,
                writer: Writer::new(
                    &chunks[index].send,
                    templates[index].as_deref(),
                    facts.app_name(chunks[index].app),
                    facts.category(index).map(Arc::as_ref),
                )
                .seeing(facts.template_profile(chunks[index].app)),
                partitions: self.context.partitions,
                now: clock::now(),
                cause: &causes[index],
            })
            .collect();
        self.act(&frozen).await
    }

    /// Publishes slice by slice; the order for a chunk's successor once all else is kept.
    async fn act(&self, frozen: &[FrozenChunk<'_>]) -> Result<(), PlanError> {
        let mut orders = Orders::default();
        for chunk in frozen {
            let mut progress = Progress::default();
            while chunk.write(&mut progress, &mut orders)? {
                self.give_out(frozen, std::mem::take(&mut orders)).await?;
            }
        }
        self.give_out(frozen, orders).await?;
        let next = frozen.iter().filter_map(|chunk| chunk.next().transpose());
        self.publish(next.collect::<Result<_, _>>()?).await?;
        for FrozenChunk { chunk, .. } in frozen.iter().filter(|frozen| frozen.is_last()) {
            if chunk.send.is_kept() {
                self.context.store.drop_body(chunk.app, chunk.send_id).await?;
            }
            let lane = chunk.send.lane.as_str();
            let due = chunk.send.send_at.unwrap_or(chunk.accepted_at);
            counter!(DISPATCHED, "lane" => lane).increment(1);
            histogram!(ACCEPT_TO_PLAN_SECONDS, "lane" => lane).record(clock::now().since(due).as_secs_f64());
        }
        Ok(())
    }

    /// Publishes a slice, with word of what has ended because it could not be rendered.
    async fn give_out(&self, frozen: &[FrozenChunk<'_>], mut slice: Orders) -> Result<(), PlanError> {
        for ended in self.context.store.record_render_failures(&slice.failures).await? {
            if let Some(chunk) = frozen.iter().find(|chunk| chunk.is_of_send(&ended)) {
                slice.push(chunk.settled(ended)?);
            }
        }
        self.publish(slice.orders).await
    }

    /// Publishes every order; what a full stream refuses becomes a timer.
    async fn publish(&self, orders: Vec<Order>) -> Result<(), PlanError> {
        let messages = orders
            .iter()
            .map(|order| Message {
                stream: order.stream,
                id: order.message_id.clone(),
                payload: order.payload.clone(),
            })
            .collect();
        let results = self.context.log.publish_all(messages).await;
        let mut refused = Vec::new();
        for (order, result) in orders.into_iter().zip(results) {
            match result {
                Ok(_) => {}
                Err(PublishError::Refused { refusal: Refusal::Full, .. }) => refused.push(NewTimer {
                    id: clock::new_id(),
                    due_at: clock::now(),
                    stream: order.stream,
                    message: order.payload.into(),
                    app: order.app,
                    send_id: Some(order.send_id),
                    user: None,
                }),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.context.store.set_timers(&refused).await?)
    }

    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compile(&self, app: AppId, facts: &Facts, index: usize) -> Option<Arc<Template>> {
        let version = facts.template(index)?;
        let key = (app, version.id, version.version);
        if let Some(known) = self.compiled().get(&key) {
            return Some(Arc::clone(known));
        }
        match Template::compile(&version.channels) {
            Ok(template) => {
                let template = Arc::new(template);
                let mut compiled = self.compiled();
                if compiled.len() >= MAX_COMPILED {
                    compiled.clear();
                }
                compiled.insert(key, Arc::clone(&template));
                Some(template)
            }
            Err(error) => {
                tracing::error!(%app, template = version.identifier, version = version.version, %error, "not compiled");
                None
            }
        }
    }
}

/// A chunk whose template is not there. It was when the send was accepted: nothing is decided without it, nor called
/// unrenderable, whose jobs may be in the log.
fn without_template<'t>(chunks: &'t [Chunk], facts: &Facts) -> Option<&'t Chunk> {
    let mut numbered = chunks.iter().enumerate();
    let is_missing =
        |index: usize, chunk: &Chunk| chunk.send.template.is_some() && facts.template(index).is_none();
    let missing = numbered.find(|(index, chunk)| is_missing(*index, chunk) && !facts.is_cancelled(chunk));
    missing.map(|(_, chunk)| chunk)
}
