//! Fetching accepted sends and reading them into turns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::{DecodeError, SendContinues};
use domain::{AppId, Envelope, Event, Lane, SendId, StreamName};
use event_log::{Consumer, ConsumerSettings, Delivered};
use metrics::counter;
use service_kit::inbound::{Inbound, Owner};
use service_kit::metrics::UNKNOWN_EVENTS;
use service_kit::{Context, clock, trace};
use store::send::KeptSend;
use store::timer::NewTimer;
use store::turn::Turn;
use tracing::Instrument as _;

use crate::orders::Cause;
use crate::planner::{PlanError, Planner};

/// Durable name of the dispatcher's consumers.
pub(crate) const DURABLE: &str = "dispatcher";
/// Messages of one batch at most.
const BATCH: usize = 200;
/// Recipients of one batch, beyond which no further turn joins it.
const BATCH_RECIPIENTS: usize = 2_000;
const WAIT: Duration = Duration::from_secs(1);
/// Events that an inbox partition may be behind before bulk sends wait for it.
const INBOX_BACKLOG: u64 = 1_000;
const BACKLOG_PAUSE: Duration = Duration::from_millis(100);

/// A turn to plan, with the message that ordered it.
struct Ordered {
    delivered: Delivered,
    turn: Turn,
    cause: Cause,
}

/// What a message asks for.
enum Reading {
    /// Plan this turn.
    Plan(Turn),
    /// Keep this send for its time.
    Schedule(Turn),
    /// Nothing: it was done before, or is of an unknown type.
    Nothing,
    /// Nothing now: what it needs is not there.
    Later,
}

struct Intake {
    context: Context,
    lane: Lane,
    inbound: Inbound,
    planner: Planner,
}

/// Dispatches the sends of one lane until the process stops.
pub(crate) async fn run(context: Context, lane: Lane) -> anyhow::Result<()> {
    let settings = ConsumerSettings { ack_wait: context.config.delivery.ack_wait, max_ack_pending: 2_000 };
    let consumer = context.consumer(StreamName::Send(lane), DURABLE, settings).await?;
    let token = context.tasks.token().clone();
    let planner = Planner::new(context.clone());
    let inbound = Inbound::new(context.store.clone(), StreamName::Send(lane));
    let mut intake = Intake { context, lane, inbound, planner };
    while let Some(fetched) = token.run_until_cancelled(intake.fetch(&consumer)).await {
        match fetched {
            Ok(messages) => intake.handle(messages).await.context("a send cannot be dispatched")?,
            Err(error) => tracing::warn!(%lane, %error, "no sends can be fetched"),
        }
    }
    Ok(())
}

impl Intake {
    async fn fetch(&self, consumer: &Consumer) -> Result<Vec<Delivered>, event_log::Error> {
        if self.lane == Lane::Bulk {
            while self.is_inbox_behind().await {
                tokio::time::sleep(BACKLOG_PAUSE).await;
            }
        }
        consumer.fetch(BATCH, WAIT).await
    }

    /// Bulk never delays transactional: it waits while any inbox is behind.
    async fn is_inbox_behind(&self) -> bool {
        for partition in 0..self.context.partitions {
            let stream = StreamName::Inbox(partition);
            match self.inbox_backlog(stream).await {
                Ok(backlog) if backlog > INBOX_BACKLOG => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%stream, error = format!("{error:#}"), "nobody knows how far it is behind");
                }
            }
        }
        false
    }

    async fn inbox_backlog(&self, stream: StreamName) -> anyhow::Result<u64> {
        let position = self.context.store.checkpoint(store::projection::INBOX, stream).await?;
        Ok(self.context.log.state(stream).await?.last_seq.saturating_sub(position))
    }

    async fn handle(&mut self, messages: Vec<Delivered>) -> anyhow::Result<()> {
        let mut batch: Vec<Ordered> = Vec::new();
        let mut recipients = 0;
        for delivered in messages {
            let envelope = match Envelope::decode(&delivered.payload) {
                Ok(envelope) => envelope,
                Err(DecodeError::UnknownType(kind)) => {
                    counter!(UNKNOWN_EVENTS, "type" => kind).increment(1);
                    self.inbound.done(&delivered).await;
                    continue;
                }
                // This release is too old for the log.
                Err(newer @ DecodeError::Newer { .. }) => return Err(newer.into()),
                Err(malformed) => {
                    self.inbound.failed_by_itself(&delivered, Owner::default(), &malformed.to_string()).await;
                    continue;
                }
            };
            let Some(ordered) = self.take(delivered, envelope).await else {
                continue;
            };
            recipients += ordered.turn.send.turn(ordered.turn.turn).len();
            batch.push(ordered);
            if recipients >= BATCH_RECIPIENTS {
                self.carry_out(std::mem::take(&mut batch)).await;
                recipients = 0;
            }
        }
        self.carry_out(batch).await;
        Ok(())
    }

    /// The turn to plan now, if the message asks for one; else it has been dealt with.
    async fn take(&self, delivered: Delivered, envelope: Envelope) -> Option<Ordered> {
        let (app, send_id, cause) =
            (envelope.app, envelope.send_id, Cause { id: envelope.id, trace: envelope.trace.clone() });
        let span = tracing::debug_span!("read send", send_id = send_id.map(tracing::field::display));
        trace::continue_from(&span, cause.trace.as_deref());
        let reading = self.read(envelope).instrument(span).await;
        match reading {
            Ok(Reading::Plan(turn)) => {
                return Some(Ordered { delivered, turn, cause });
            }
            Ok(Reading::Schedule(turn)) => match self.schedule(&turn, &cause).await {
                Ok(()) => self.inbound.done(&delivered).await,
                Err(error) => {
                    tracing::warn!(send_id = %turn.send_id, %error, "a send cannot be scheduled yet");
                    self.inbound.again(&delivered).await;
                }
            },
            Ok(Reading::Nothing) => self.inbound.done(&delivered).await,
            Ok(Reading::Later) => self.inbound.again(&delivered).await,
            Err(foreign) => {
                self.inbound.failed_by_itself(&delivered, Owner { app: Some(app), send_id }, &foreign).await;
            }
        }
        None
    }

    async fn read(&self, envelope: Envelope) -> Result<Reading, String> {
        let (app, accepted_at, kind) = (envelope.app, envelope.at, envelope.event.kind());
        match (envelope.event, envelope.send_id) {
            (Event::SendAccepted(send), Some(send_id)) => {
                let turn = Turn { app, send_id, turn: 0, accepted_at, send: Arc::from(send) };
                let is_ahead = turn.send.send_at.is_some_and(|at| at > clock::now());
                Ok(if is_ahead { Reading::Schedule(turn) } else { Reading::Plan(turn) })
            }
            (Event::SendContinues(continues), Some(send_id)) => {
                Ok(self.continued(app, send_id, continues.turn).await)
            }
            _ => Err(format!("{kind} does not belong into a send stream, or names no send")),
        }
    }

    async fn continued(&self, app: AppId, send_id: SendId, turn: u32) -> Reading {
        match self.context.store.kept_send(app, send_id).await {
            Ok(Some(KeptSend { accepted_at, send: Some(send) })) => {
                Reading::Plan(Turn { app, send_id, turn, accepted_at, send: Arc::new(send) })
            }
            // Its last turn has been acted on.
            Ok(Some(KeptSend { send: None, .. })) => Reading::Nothing,
            Ok(None) => {
                tracing::error!(%send_id, "the database does not know a send that continues: is it behind the log?");
                Reading::Later
            }
            Err(error) => {
                tracing::warn!(%send_id, %error, "a send cannot be continued yet");
                Reading::Later
            }
        }
    }

    async fn schedule(&self, turn: &Turn, cause: &Cause) -> Result<(), PlanError> {
        let Some(due_at) = turn.send.send_at else {
            return Ok(());
        };
        let id = clock::new_id();
        let envelope = Envelope {
            id,
            app: turn.app,
            at: clock::now(),
            send_id: Some(turn.send_id),
            caused_by: Some(cause.id),
            trace: cause.trace.clone(),
            event: Event::SendContinues(SendContinues { turn: 0 }),
        };
        let timer = NewTimer {
            id,
            due_at,
            stream: StreamName::Send(self.lane),
            message: envelope.encode()?,
            app: turn.app,
            send_id: Some(turn.send_id),
            user: None,
        };
        Ok(self.context.store.schedule(turn, &timer).await?)
    }

    /// Plans and acts on a batch. Unless that fails for everybody, the one at fault is found by taking each alone: what
    /// is refused as such is counted, anything else, such as a row of a newer release, is tried again later.
    async fn carry_out(&mut self, batch: Vec<Ordered>) {
        match self.plan(&batch).await {
            Ok(()) => self.all_done(&batch).await,
            Err(error) if error.is_outage() => self.put_off(&batch, &error).await,
            Err(_) => {
                for ordered in batch {
                    let one = std::slice::from_ref(&ordered);
                    match self.plan(one).await {
                        Ok(()) => self.all_done(one).await,
                        Err(error) if !error.is_own_failure() => self.put_off(one, &error).await,
                        Err(error) => {
                            let Turn { app, send_id, .. } = ordered.turn;
                            let owner = Owner { app: Some(app), send_id: Some(send_id) };
                            self.inbound
                                .failed_by_itself(&ordered.delivered, owner, &error.to_string())
                                .await;
                        }
                    }
                }
            }
        }
    }

    async fn plan(&mut self, batch: &[Ordered]) -> Result<(), PlanError> {
        if batch.is_empty() {
            return Ok(());
        }
        let turns: Vec<_> = batch.iter().map(|ordered| ordered.turn.clone()).collect();
        let causes: Vec<_> = batch.iter().map(|ordered| ordered.cause.clone()).collect();
        self.planner.carry_out(&turns, &causes).await
    }

    async fn all_done(&self, batch: &[Ordered]) {
        for ordered in batch {
            tracing::debug!(send_id = %ordered.turn.send_id, turn = ordered.turn.turn, "dispatched");
            self.inbound.done(&ordered.delivered).await;
        }
    }

    async fn put_off(&self, batch: &[Ordered], error: &PlanError) {
        tracing::warn!(lane = %self.lane, sends = batch.len(), %error, "sends are put off");
        for ordered in batch {
            self.inbound.again(&ordered.delivered).await;
        }
    }
}
