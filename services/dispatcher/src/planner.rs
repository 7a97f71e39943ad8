//! Freezing a batch of turns and acting on what was decided.

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
use store::sends::facts::Facts;
use store::sends::plan::Hold;
use store::sends::turn::Turn;

use crate::orders::{Cause, FrozenTurn, Order, Orders, Progress};

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
    /// Turns that need them are left out.
    LeftOut,
    /// It waits for a few seconds.
    AwaitedFor,
}

impl Planner {
    pub(crate) fn new(context: Context) -> Planner {
        Planner { context, compiled: Arc::default() }
    }

    /// Freezes the turns, then publishes what was decided. When it returns without error, every turn has been acted
    /// on, but for those whose positions it returns: they need what is locked elsewhere.
    pub(crate) async fn carry_out(
        &self,
        turns: &[Turn],
        causes: &[Cause],
        busy: Busy,
    ) -> Result<Vec<usize>, PlanError> {
        let hold = match busy {
            Busy::LeftOut => self.context.store.hold_free(turns).await?,
            Busy::AwaitedFor => self.context.store.hold_all(turns).await?,
        };
        let (left_out, free): (Vec<_>, Vec<_>) = (0..turns.len()).partition(|&index| hold.is_busy(index));
        if !free.is_empty() {
            let turns: Vec<_> = free.iter().map(|&index| turns[index].clone()).collect();
            let causes: Vec<_> = free.iter().map(|&index| causes[index].clone()).collect();
            self.carry_out_held(hold, &turns, &causes).await?;
        }
        Ok(left_out)
    }

    async fn carry_out_held(&self, hold: Hold, turns: &[Turn], causes: &[Cause]) -> Result<(), PlanError> {
        let mut freeze = hold.freeze(turns).await?;
        let facts = freeze.facts().await?;
        if let Some(turn) = without_template(turns, &facts) {
            return Err(PlanError::NoTemplate { app: turn.app, send_id: turn.send_id });
        }
        let templates: Vec<_> =
            (0..turns.len()).map(|index| self.compile(turns[index].app, &facts, index)).collect();
        let mut decisions = Vec::with_capacity(turns.len());
        for (index, turn) in turns.iter().enumerate() {
            decisions.push(if freeze.is_new(index) || sabotage::is(Mutant::PlanNotFrozen) {
                decide(turn, &facts, index, templates[index].as_deref())
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

        let frozen: Vec<_> = (0..turns.len())
            .map(|index| FrozenTurn {
                turn: &turns[index],
                decisions: &decisions[index],
                facts: &facts,
                position: index,
                writer: Writer::new(
                    &turns[index].send,
                    templates[index].as_deref(),
                    facts.app_name(turns[index].app),
                    facts.category(index).map(Arc::as_ref),
                )
                .seeing(facts.template_profile(turns[index].app)),
                partitions: self.context.partitions,
                now: clock::now(),
                cause: &causes[index],
            })
            .collect();
        self.act(&frozen).await
    }

    /// Publishes slice by slice; the order for a turn's successor once all else is kept.
    async fn act(&self, frozen: &[FrozenTurn<'_>]) -> Result<(), PlanError> {
        let mut orders = Orders::default();
        for turn in frozen {
            let mut progress = Progress::default();
            while turn.write(&mut progress, &mut orders)? {
                self.give_out(frozen, std::mem::take(&mut orders)).await?;
            }
        }
        self.give_out(frozen, orders).await?;
        let next = frozen.iter().filter_map(|turn| turn.next().transpose());
        self.publish(next.collect::<Result<_, _>>()?).await?;
        for FrozenTurn { turn, .. } in frozen.iter().filter(|frozen| frozen.is_last()) {
            if turn.send.is_kept() {
                self.context.store.drop_body(turn.app, turn.send_id).await?;
            }
            let lane = turn.send.lane.as_str();
            let due = turn.send.send_at.unwrap_or(turn.accepted_at);
            counter!(DISPATCHED, "lane" => lane).increment(1);
            histogram!(ACCEPT_TO_PLAN_SECONDS, "lane" => lane).record(clock::now().since(due).as_secs_f64());
        }
        Ok(())
    }

    /// Publishes a slice, with word of what has ended because it could not be rendered.
    async fn give_out(&self, frozen: &[FrozenTurn<'_>], mut slice: Orders) -> Result<(), PlanError> {
        for ended in self.context.store.record_render_failures(&slice.failures).await? {
            if let Some(turn) = frozen.iter().find(|turn| turn.is_of_send(&ended)) {
                slice.push(turn.settled(ended)?);
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

/// A turn whose template is not there. It was when the send was accepted: nothing is decided without it, nor called
/// unrenderable, whose jobs may be in the log.
fn without_template<'t>(turns: &'t [Turn], facts: &Facts) -> Option<&'t Turn> {
    let mut numbered = turns.iter().enumerate();
    let is_missing =
        |index: usize, turn: &Turn| turn.send.template.is_some() && facts.template(index).is_none();
    let missing = numbered.find(|(index, turn)| is_missing(*index, turn) && !facts.is_cancelled(turn));
    missing.map(|(_, turn)| turn)
}
