//! Fetches the messages of accepted sends, and reads them into chunks.

mod batch;
mod throttle;

use std::sync::Arc;
use std::time::Duration;

use domain::event::SendContinues;
use domain::send::CHUNK_RECIPIENTS;
use domain::structure::json_memory;
use domain::{AppId, Envelope, Event, Lane, SendId, StreamName};
use event_log::{ConsumerSettings, DeliveredMessage};
use service_kit::pace::Pace;
use service_kit::work_stream::{Owner, WorkStream};
use service_kit::{Context, clock, trace};
use store::database::slots::Slots;
use store::deliveries::timer::NewTimer;
use store::sends::chunk::{Cause, Chunk};
use store::sends::stored_send::StoredSend;
use tracing::Instrument as _;

use crate::backpressure::Backpressure;
use crate::intake::batch::{ChunkBatch, FetchedChunk};
use crate::intake::throttle::Throttle;
use crate::plan_error::PlanError;
use crate::planner::Planner;

/// Durable name of the dispatcher's consumers.
pub const DURABLE: &str = "dispatcher";
const BATCH: usize = 200;
const BATCH_RECIPIENTS: usize = 2_000;
/// Lower than for transactional sends, whose inbox items wait behind the items of bulk sends.
const BULK_BATCH_RECIPIENTS: usize = 1_000;
/// Size in memory, in bytes. A chunk counts with its whole send, which planning loads even for the short message of a later chunk.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
const WAIT: Duration = Duration::from_secs(1);
/// Time between two batches, from the beginning of the first.
const PACE: Duration = Duration::from_millis(8);
/// Maximum number of chunks of a lane that wait for locks outside of a batch. Each has its own database connection.
const ALONE: usize = 4;
const ALONE_OF_APP: usize = 2;

enum MessageAction {
    /// Chunk, and approximate size of its send in memory, in bytes.
    Plan(Chunk, usize),
    Schedule(Chunk),
    Nothing,
    /// The send is missing from the database, or cannot be read.
    Later,
}

struct Intake {
    context: Context,
    lane: Lane,
    work_stream: WorkStream,
    throttle: Throttle,
    planner: Planner,
    alone: Slots,
    /// Number of recipients. It halves with each batch of smaller chunks.
    largest_chunk: usize,
    /// Number of recipients. It halves with each smaller batch.
    largest_batch: usize,
    /// Number of events. It halves with each smaller message.
    largest_bundle: usize,
}

pub(crate) async fn run(context: Context, backpressure: Backpressure, lane: Lane) -> anyhow::Result<()> {
    let settings = ConsumerSettings { ack_wait: context.config.delivery.ack_wait, max_ack_pending: 2_000 };
    let consumer = context.consumer(StreamName::Send(lane), DURABLE, settings).await?;
    let token = context.tasks.token().clone();
    let planner = Planner::new(context.clone());
    let work_stream = WorkStream::new(context.store.clone(), StreamName::Send(lane));
    let alone = Slots::new(ALONE, ALONE_OF_APP);
    let (largest_chunk, largest_batch) = (CHUNK_RECIPIENTS, CHUNK_RECIPIENTS);
    let throttle = Throttle::new(context.clone(), backpressure, lane);
    let mut intake = Intake {
        context,
        lane,
        work_stream,
        throttle,
        planner,
        alone,
        largest_chunk,
        largest_batch,
        largest_bundle: 1,
    };
    let mut pace = Pace::new(PACE);
    while token.run_until_cancelled(intake.throttle.wait_until_open(intake.largest_batch)).await.is_some() {
        // A fetch must not be cancelled: messages that it had already received could not be returned to the log.
        let most = intake.fetch_size();
        match consumer.fetch(most, WAIT).await {
            Ok(messages) if token.is_cancelled() => intake.return_all(&messages).await,
            Ok(messages) => {
                pace.begin();
                let is_small = messages.len() < most;
                intake.handle(messages).await;
                if is_small {
                    pace.ready().await;
                }
            }
            Err(error) => tracing::warn!(%lane, %error, "cannot fetch sends; trying again"),
        }
    }
    if let Err(error) = consumer.release().await {
        tracing::warn!(%lane, %error, "cannot return unhandled sends to the log while stopping; the log will redeliver them after `ack_wait`");
    }
    Ok(())
}

impl Intake {
    /// Estimates from the number of events in recent messages; for the bulk lane also from the size of recent chunks, so that few messages
    /// have to be returned.
    fn fetch_size(&self) -> usize {
        let sends = match self.lane {
            Lane::Transactional => BATCH,
            Lane::Bulk => (self.max_batch_recipients() / self.largest_chunk.max(1)).clamp(1, BATCH),
        };
        sends.div_ceil(self.largest_bundle)
    }

    fn max_batch_recipients(&self) -> usize {
        match self.lane {
            Lane::Transactional => BATCH_RECIPIENTS,
            Lane::Bulk => BULK_BATCH_RECIPIENTS,
        }
    }

    async fn return_all(&self, messages: &[DeliveredMessage]) {
        for delivered in messages {
            self.work_stream.return_now(delivered).await;
        }
    }

    /// Returns the rest to the log after a full batch of bulk sends, because the lag of the inboxes must be checked again.
    async fn handle(&mut self, messages: Vec<DeliveredMessage>) {
        let mut messages = messages.into_iter();
        let mut batch = ChunkBatch::default();
        while let Some(delivered) = messages.next() {
            let is_suspect = self.work_stream.is_suspect(&delivered);
            if is_suspect {
                self.plan_batch(std::mem::take(&mut batch).chunks).await;
            }
            let events = self.work_stream.decode(delivered).await;
            self.largest_bundle = events.len().max(self.largest_bundle / 2).max(1);
            for (delivered, envelope) in events {
                if let Some(fetched) = self.chunk_to_plan(delivered, envelope).await {
                    batch.add(fetched);
                }
            }
            if is_suspect {
                // Planned alone: its planning may end the process.
                self.plan_batch(std::mem::take(&mut batch).chunks).await;
            }
            if batch.recipients >= self.max_batch_recipients() || batch.bytes >= BATCH_BYTES {
                self.plan_batch(std::mem::take(&mut batch).chunks).await;
                if self.lane == Lane::Bulk || self.context.tasks.token().is_cancelled() {
                    return self.return_all(messages.as_slice()).await;
                }
            }
        }
        self.plan_batch(batch.chunks).await;
    }

    /// Handles the message completely and returns None if its chunk is not to be planned now.
    async fn chunk_to_plan(&self, delivered: DeliveredMessage, envelope: Envelope) -> Option<FetchedChunk> {
        let app = envelope.app;
        let send_id = envelope.send_id;
        let span = tracing::debug_span!("read send", send_id = send_id.map(tracing::field::display));
        trace::continue_from(&span, envelope.trace.as_deref());
        let accepted = json_memory(&delivered.payload);
        let reading = self.read(envelope, accepted).instrument(span).await;
        match reading {
            Ok(MessageAction::Plan(chunk, size)) => {
                return Some(FetchedChunk { delivered, chunk, size });
            }
            Ok(MessageAction::Schedule(chunk)) => match self.schedule(&chunk).await {
                Ok(true) => self.work_stream.acknowledge(&delivered).await,
                // The first chunk is already frozen. The process that froze it may have stopped before it published the
                // messages.
                Ok(false) => return Some(FetchedChunk { delivered, chunk, size: accepted }),
                Err(error) => {
                    tracing::warn!(send_id = %chunk.send_id, %error, "cannot schedule a send; trying again");
                    self.work_stream.return_later(&delivered).await;
                }
            },
            Ok(MessageAction::Nothing) => self.work_stream.acknowledge(&delivered).await,
            Ok(MessageAction::Later) => self.work_stream.return_later(&delivered).await,
            Err(foreign) => {
                self.work_stream.count_failure(&delivered, Owner { app: Some(app), send_id }, &foreign).await;
            }
        }
        None
    }

    async fn read(&self, envelope: Envelope, size: usize) -> Result<MessageAction, String> {
        let app = envelope.app;
        let accepted_at = envelope.at;
        let kind = envelope.event.kind();
        let cause = Some(Cause { id: envelope.id, trace: envelope.trace });
        match (envelope.event, envelope.send_id) {
            (Event::SendAccepted(send), Some(send_id)) => {
                let chunk = Chunk { cause, ..Chunk::listed(app, send_id, 0, accepted_at, Arc::from(send)) };
                let is_ahead = chunk.send.send_at.is_some_and(|at| at > clock::now());
                Ok(if is_ahead { MessageAction::Schedule(chunk) } else { MessageAction::Plan(chunk, size) })
            }
            (Event::SendContinues(continues), Some(send_id)) => {
                Ok(self.read_continuation(app, send_id, cause, continues).await)
            }
            _ => Err(format!("{kind} does not belong in a send stream, or has no send id")),
        }
    }

    async fn read_continuation(
        &self,
        app: AppId,
        send_id: SendId,
        cause: Option<Cause>,
        continues: SendContinues,
    ) -> MessageAction {
        let SendContinues { chunk, expansion, .. } = continues;
        match self.context.store.sends().find_stored_send(app, send_id, chunk).await {
            Ok(Some(StoredSend { accepted_at, send: Some(mut send), size, frozen })) => {
                let expansion = frozen.or(expansion).map(Arc::new);
                if expansion.is_some() {
                    // Chunks with many subscribers come from the bulk lane, whatever the lane of the send is.
                    send.lane = self.lane;
                } else if chunk as usize >= send.chunks() {
                    tracing::error!(%send_id, chunk, "the subscribers of a chunk are neither in its message nor in the database; retrying the message");
                    return MessageAction::Later;
                }
                let send = Arc::new(send);
                MessageAction::Plan(Chunk { app, send_id, chunk, accepted_at, send, expansion, cause }, size)
            }
            // All chunks of the send have been dispatched.
            Ok(Some(StoredSend { send: None, .. })) => MessageAction::Nothing,
            Ok(None) => {
                tracing::error!(%send_id, "cannot find the send of a chunk in the database, which may be older than the log; retrying the message");
                MessageAction::Later
            }
            Err(error) => {
                tracing::warn!(%send_id, %error, "cannot read the send of a chunk; retrying the message");
                MessageAction::Later
            }
        }
    }

    /// Returns false if no timer is needed because the first chunk is already frozen.
    async fn schedule(&self, chunk: &Chunk) -> Result<bool, PlanError> {
        let Some(due_at) = chunk.send.send_at else {
            return Ok(false);
        };
        let (id, cause) = (clock::new_id(), chunk.cause.as_ref());
        let envelope = Envelope {
            id,
            app: chunk.app,
            at: clock::now(),
            send_id: Some(chunk.send_id),
            caused_by: cause.map(|cause| cause.id),
            trace: cause.and_then(|cause| cause.trace.clone()),
            event: Event::SendContinues(SendContinues::plain(&chunk.send, 0)),
        };
        let timer = NewTimer {
            id,
            due_at,
            stream: StreamName::Send(self.lane),
            message: envelope.encode()?,
            app: chunk.app,
            send_id: Some(chunk.send_id),
            user: None,
            wait: None,
        };
        Ok(self.context.store.sends().schedule(chunk, &timer).await?)
    }
}
