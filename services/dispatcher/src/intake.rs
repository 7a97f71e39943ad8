//! Fetching accepted sends and reading them into chunks.

mod batch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::event::{DecodeError, SendContinues};
use domain::send::CHUNK_RECIPIENTS;
use domain::structure::json_memory;
use domain::{AppId, Envelope, Event, Lane, SendId, StreamName};
use event_log::{ConsumerSettings, Delivered};
use metrics::counter;
use service_kit::inbound::{Inbound, Owner};
use service_kit::metrics::{NEWER_EVENTS, UNKNOWN_EVENTS};
use service_kit::{Context, clock, trace};
use store::database::slots::Slots;
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use store::sends::send::KeptSend;
use tracing::Instrument as _;

use crate::intake::batch::{Batch, Ordered};
use crate::orders::Cause;
use crate::planner::{PlanError, Planner};
use crate::room::Room;

/// Durable name of the dispatcher's consumers.
pub const DURABLE: &str = "dispatcher";
/// Messages of one batch at most.
const BATCH: usize = 200;
/// Recipients of one batch, beyond which no further chunk joins it. Of a bulk batch fewer: what comes over the other lane
/// waits for its items.
const BATCH_RECIPIENTS: usize = 2_000;
const BULK_BATCH_RECIPIENTS: usize = 1_000;
/// Bytes that the sends of one batch take in memory, likewise. A message may stand for a send that is a thousand times as large.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
const WAIT: Duration = Duration::from_secs(1);
/// Chunks of a lane that wait for locks outside the batches, each with a connection to the database; and those of one app.
const ALONE: usize = 4;
const ALONE_OF_APP: usize = 2;
/// Items that an inbox partition may be behind before bulk sends wait for it: as many as it projects in a moment, since
/// what comes over the other lane has to wait for them.
const INBOX_BACKLOG: usize = 100;
/// How long they wait for that at most, and the events that an inbox partition may be behind whatever the time: where nobody
/// projects, nobody gains by waiting.
const INBOX_PATIENCE: Duration = Duration::from_secs(1);
const INBOX_EVENTS: u64 = 1_000;
/// Between two looks whether whoever is behind has caught up.
const PAUSE: Duration = Duration::from_millis(10);

/// What a message asks for.
enum Reading {
    /// Plan this chunk, of a send that takes about so many bytes in memory.
    Plan(Chunk, usize),
    /// Keep this send for its time.
    Schedule(Chunk),
    /// Nothing: it was done before, or is of an unknown type.
    Nothing,
    /// Nothing now: what it needs is not there.
    Later,
}

struct Intake {
    context: Context,
    lane: Lane,
    inbound: Inbound,
    room: Room,
    planner: Planner,
    /// Places for chunks that wait for a lock by themselves.
    alone: Slots,
    /// Recipients of the largest chunk of late: half as many with each batch that has none so large.
    largest_chunk: usize,
}

/// Dispatches the sends of one lane until the process stops.
pub(crate) async fn run(context: Context, room: Room, lane: Lane) -> anyhow::Result<()> {
    let settings = ConsumerSettings { ack_wait: context.config.delivery.ack_wait, max_ack_pending: 2_000 };
    let consumer = context.consumer(StreamName::Send(lane), DURABLE, settings).await?;
    let token = context.tasks.token().clone();
    let planner = Planner::new(context.clone());
    let inbound = Inbound::new(context.store.clone(), StreamName::Send(lane));
    let alone = Slots::new(ALONE, ALONE_OF_APP);
    let mut intake = Intake { context, lane, inbound, room, planner, alone, largest_chunk: CHUNK_RECIPIENTS };
    while token.run_until_cancelled(intake.may_go_on()).await.is_some() {
        // Not dropped on the way: what it brings could be given back to nobody.
        match consumer.fetch(intake.batch(), WAIT).await {
            Ok(messages) if token.is_cancelled() => intake.hand_back(&messages).await,
            Ok(messages) => intake.handle(messages).await,
            Err(error) => tracing::warn!(%lane, %error, "no sends can be fetched"),
        }
    }
    if let Err(error) = consumer.release().await {
        tracing::warn!(%lane, %error, "a send cannot be given back; it comes again after ack_wait");
    }
    Ok(())
}

impl Intake {
    /// Returns once sends of the lane may be planned.
    async fn may_go_on(&self) {
        let begin = Instant::now();
        while self.room.missing_for(self.lane).is_some()
            || (self.lane == Lane::Bulk && self.is_inbox_behind(begin.elapsed()).await)
        {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// How many messages to take at once: of bulk sends a batch at the size of the last ones, so that little has to be given
    /// back.
    fn batch(&self) -> usize {
        match self.lane {
            Lane::Transactional => BATCH,
            Lane::Bulk => (self.batch_recipients() / self.largest_chunk.max(1)).clamp(1, BATCH),
        }
    }

    fn batch_recipients(&self) -> usize {
        match self.lane {
            Lane::Transactional => BATCH_RECIPIENTS,
            Lane::Bulk => BULK_BATCH_RECIPIENTS,
        }
    }

    /// Gives back what was not begun with, for another instance.
    async fn hand_back(&self, messages: &[Delivered]) {
        for delivered in messages {
            self.inbound.at_once(delivered).await;
        }
    }

    /// Bulk never delays transactional: it waits while any inbox is behind.
    async fn is_inbox_behind(&self, waited: Duration) -> bool {
        let most = match waited < INBOX_PATIENCE {
            true => inbox_backlog(self.largest_chunk, self.context.partitions),
            false => INBOX_EVENTS,
        };
        match self.furthest_behind().await {
            Ok(events) => events > most,
            Err(error) => {
                tracing::debug!(error = format!("{error:#}"), "nobody knows how far inboxes are behind");
                false
            }
        }
    }

    /// Events that the inbox partition which is furthest behind has to catch up with.
    async fn furthest_behind(&self) -> anyhow::Result<u64> {
        let projected: HashMap<String, u64> =
            self.context.store.inbox_positions().await?.into_iter().collect();
        let mut furthest = 0;
        for stream in (0..self.context.partitions).map(StreamName::Inbox) {
            let position = projected.get(&stream.to_string()).copied().unwrap_or_default();
            let last = self.context.log.state(stream).await?.last_seq;
            furthest = furthest.max(last.saturating_sub(position));
        }
        Ok(furthest)
    }

    /// Plans what was fetched, a batch at a time. After a batch of bulk sends there is another look at the inboxes first, and
    /// whoever is to stop begins with no other one: the rest is given back.
    async fn handle(&mut self, messages: Vec<Delivered>) {
        let (mut messages, mut batch) = (messages.into_iter(), Batch::default());
        while let Some(delivered) = messages.next() {
            let Some(ordered) = self.open(delivered).await else {
                continue;
            };
            batch.add(ordered);
            if batch.recipients >= self.batch_recipients() || batch.bytes >= BATCH_BYTES {
                self.carry_out(std::mem::take(&mut batch).chunks).await;
                if self.lane == Lane::Bulk || self.context.tasks.token().is_cancelled() {
                    return self.hand_back(messages.as_slice()).await;
                }
            }
        }
        self.carry_out(batch.chunks).await;
    }

    /// The chunk to plan now, if the message can be read and asks for one; else it has been dealt with.
    async fn open(&self, delivered: Delivered) -> Option<Ordered> {
        match Envelope::decode(&delivered.payload) {
            Ok(envelope) => return self.take(delivered, envelope).await,
            Err(DecodeError::UnknownType(kind)) => {
                counter!(UNKNOWN_EVENTS, "type" => kind).increment(1);
                self.inbound.done(&delivered).await;
            }
            Err(newer @ DecodeError::Newer { .. }) => {
                counter!(NEWER_EVENTS, "type" => newer.kind().to_owned()).increment(1);
                tracing::error!(error = %newer, seq = delivered.seq, "a message waits for a newer dispatcher");
                self.inbound.again(&delivered).await;
            }
            Err(malformed) => {
                self.inbound.failed_by_itself(&delivered, Owner::default(), &malformed.to_string()).await;
            }
        }
        None
    }

    /// The chunk to plan now, if the message asks for one; else it has been dealt with.
    async fn take(&self, delivered: Delivered, envelope: Envelope) -> Option<Ordered> {
        let (app, send_id, cause) =
            (envelope.app, envelope.send_id, Cause { id: envelope.id, trace: envelope.trace.clone() });
        let span = tracing::debug_span!("read send", send_id = send_id.map(tracing::field::display));
        trace::continue_from(&span, cause.trace.as_deref());
        let accepted = json_memory(&delivered.payload);
        let reading = self.read(envelope, accepted).instrument(span).await;
        match reading {
            Ok(Reading::Plan(chunk, size)) => {
                return Some(Ordered { delivered, chunk, size, cause });
            }
            Ok(Reading::Schedule(chunk)) => match self.schedule(&chunk, &cause).await {
                Ok(true) => self.inbound.done(&delivered).await,
                // Its time has come meanwhile: another began with it, and may never come to act.
                Ok(false) => return Some(Ordered { delivered, chunk, size: accepted, cause }),
                Err(error) => {
                    tracing::warn!(send_id = %chunk.send_id, %error, "a send cannot be scheduled yet");
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

    /// Reads a message that takes about `size` bytes in memory.
    async fn read(&self, envelope: Envelope, size: usize) -> Result<Reading, String> {
        let (app, accepted_at, kind) = (envelope.app, envelope.at, envelope.event.kind());
        match (envelope.event, envelope.send_id) {
            (Event::SendAccepted(send), Some(send_id)) => {
                let chunk = Chunk { app, send_id, chunk: 0, accepted_at, send: Arc::from(send) };
                let is_ahead = chunk.send.send_at.is_some_and(|at| at > clock::now());
                Ok(if is_ahead { Reading::Schedule(chunk) } else { Reading::Plan(chunk, size) })
            }
            (Event::SendContinues(continues), Some(send_id)) => {
                Ok(self.continued(app, send_id, continues.chunk).await)
            }
            _ => Err(format!("{kind} does not belong into a send stream, or names no send")),
        }
    }

    async fn continued(&self, app: AppId, send_id: SendId, chunk: u32) -> Reading {
        match self.context.store.kept_send(app, send_id).await {
            Ok(Some(KeptSend { accepted_at, send: Some(send), size })) => {
                Reading::Plan(Chunk { app, send_id, chunk, accepted_at, send: Arc::new(send) }, size)
            }
            // Its last chunk has been acted on.
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

    /// Whether the send waits for its timer.
    async fn schedule(&self, chunk: &Chunk, cause: &Cause) -> Result<bool, PlanError> {
        let Some(due_at) = chunk.send.send_at else {
            return Ok(false);
        };
        let id = clock::new_id();
        let envelope = Envelope {
            id,
            app: chunk.app,
            at: clock::now(),
            send_id: Some(chunk.send_id),
            caused_by: Some(cause.id),
            trace: cause.trace.clone(),
            event: Event::SendContinues(SendContinues { chunk: 0 }),
        };
        let timer = NewTimer {
            id,
            due_at,
            stream: StreamName::Send(self.lane),
            message: envelope.encode()?,
            app: chunk.app,
            send_id: Some(chunk.send_id),
            user: None,
        };
        Ok(self.context.store.schedule(chunk, &timer).await?)
    }
}

/// How many events of chunks of this size an inbox partition may be behind. A chunk is an event in every partition.
fn inbox_backlog(recipients: usize, partitions: u32) -> u64 {
    let items = recipients.div_ceil(partitions.max(1) as usize).max(1);
    (INBOX_BACKLOG / items).max(1) as u64
}
