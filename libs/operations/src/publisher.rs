//! Appends the events of requests to the log.

use std::fmt::Display;
use std::sync::Arc;

use crate::OperationError;
use bytes::Bytes;
use domain::{Envelope, Event, Lane, StreamName};
use event_log::{EventLog, Message, PublishError, Refusal};
use fairness::waiting::{WaitError, wait};
use service_kit::append::{GroupAppend, NewEvent, start_group_append};
use service_kit::fullness::GATEWAY_STOPS;
use service_kit::{Context, Fullness};
use store::Store;
use store::control::volume::VolumeQuota;
use tokio_util::sync::CancellationToken;

use crate::sends::volume::{Limits, Volumes};

/// Maximum size of an encoded event in bytes: the broker's message limit of 1 MiB, minus 4 KiB for the message headers.
const MAX_EVENT: usize = 1024 * 1024 - 4 * 1024;

/// Size of an encoded send in bytes, up to which it is appended together with others. Larger sends would delay them.
const MAX_GROUPED: usize = 16 * 1024;

/// Possible repetition of a send's event in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// A repeated request creates a new event.
    Impossible,
    /// A repeated request appends the same event again, so the log must drop duplicates.
    Possible,
    /// An earlier request has probably appended the event.
    Actual,
}

/// Appends events, unless the log is nearly full or the app has reached its quota of bytes.
pub struct Publisher {
    log: EventLog,
    transactional_sends: GroupAppend,
    bulk_sends: GroupAppend,
    fullness: Fullness,
    /// Bytes that each app has added within a day.
    pub(crate) volumes: Arc<Volumes>,
}

impl Publisher {
    /// Starts the tasks that group sends and follow the fill of the log, until `served` is cancelled.
    pub fn start(context: &Context, served: &CancellationToken) -> Publisher {
        let sends = Lane::ALL.iter().map(|&lane| StreamName::Send(lane));
        let streams = sends.chain((0..context.partitions).map(StreamName::Inbox));
        let fullness = Fullness::new(GATEWAY_STOPS, streams);
        context
            .spawn("fullness of the log", fullness.clone().follow_until(served.clone(), context.log.clone()));
        let volumes = Arc::new(Volumes::default());
        context.spawn("volumes of apps", follow(volumes.clone(), served.clone(), context.store.clone()));
        Publisher {
            log: context.log.clone(),
            transactional_sends: start_group_append(context),
            bulk_sends: start_group_append(context),
            fullness,
            volumes,
        }
    }

    /// Appends an event to the log, waits for the log's confirmation and returns the event's sequence. 413 if the event is too
    /// large; 503 if the stream is nearly full or the log does not confirm in time.
    pub async fn append(&self, stream: StreamName, event: &Envelope) -> Result<u64, OperationError> {
        let payload = self.encode(stream, event)?;
        Ok(confirmed(wait(self.log.publish(Message { stream, id: None, payload })).await)??.seq)
    }

    /// Appends an accepted send like [`append`](Self::append), together with the sends of concurrent requests. A large or repeated
    /// send is appended alone. If the send may be appended again, its id becomes the message id. The log then drops a duplicate,
    /// unless the first message contained other sends too; the dispatcher recognises such a duplicate. 429 if the app has reached
    /// its quota of bytes.
    pub(crate) async fn append_send(
        &self,
        lane: Lane,
        send: &Envelope,
        repeats: Repetition,
        limits: Limits,
    ) -> Result<(), OperationError> {
        let stream = StreamName::Send(lane);
        let payload = self.encode(stream, send)?;
        let size = match &send.event {
            Event::SendAccepted(accepted) => accepted.fan_out(payload.len()),
            _ => payload.len(),
        };
        let store = self.fullness.store().limit;
        self.volumes.charge(send.app, VolumeQuota::Sends, size, limits, store)?;
        let appended = self.append_encoded(stream, lane, send, repeats, payload).await;
        if appended.is_err() {
            self.volumes.release(send.app, VolumeQuota::Sends, size);
        }
        appended
    }

    async fn append_encoded(
        &self,
        stream: StreamName,
        lane: Lane,
        send: &Envelope,
        repeats: Repetition,
        payload: Bytes,
    ) -> Result<(), OperationError> {
        let message_id = (repeats != Repetition::Impossible).then(|| send.id.to_string());
        if payload.len() > MAX_GROUPED || repeats == Repetition::Actual {
            let message = Message { stream, id: message_id, payload };
            let published = Box::pin(self.log.publish(message));
            return Ok(confirmed(wait(published).await)?.map(drop)?);
        }
        let (kind, app, send_id) = (send.event.kind(), send.app, send.send_id);
        let event = NewEvent { stream, kind, message_id, app, send_id, payload };
        let group = match lane {
            Lane::Transactional => &self.transactional_sends,
            Lane::Bulk => &self.bulk_sends,
        };
        match confirmed(wait(group.call(event)).await)? {
            Ok(appended) => Ok(appended?),
            Err(unanswered) => Err(unconfirmed(unanswered)),
        }
    }

    fn encode(&self, stream: StreamName, event: &Envelope) -> Result<Bytes, OperationError> {
        let payload = event.encode().map_err(OperationError::defect)?;
        if payload.len() > MAX_EVENT {
            return Err(OperationError::TooLarge);
        }
        if self.fullness.is_full(stream) {
            let message = "the event log is nearly full; repeat the request later";
            return Err(OperationError::later(message, format_args!("{stream} or the store is nearly full")));
        }
        self.fullness.add(payload.len());
        Ok(payload.into())
    }
}

async fn follow(volumes: Arc<Volumes>, served: CancellationToken, store: Store) -> anyhow::Result<()> {
    volumes.follow_until(&served, &store).await;
    Ok(())
}

fn confirmed<T>(waited: Result<T, WaitError>) -> Result<T, OperationError> {
    waited.map_err(|error| match error {
        WaitError::Crowded => OperationError::crowded(),
        WaitError::Overdue => unconfirmed("no acknowledgement in time"),
    })
}

/// Creates the error for an event that the log did not confirm in time. The log may have stored the event.
fn unconfirmed(cause: impl Display) -> OperationError {
    OperationError::later(
        "not confirmed: the event log did not answer in time; repeat with the same Idempotency-Key",
        cause,
    )
}

impl From<PublishError> for OperationError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Refused { refusal: Refusal::TooLarge, .. } => OperationError::TooLarge,
            PublishError::Refused { .. } => {
                OperationError::later("the event log cannot accept the event now; repeat the request", error)
            }
            PublishError::Unconfirmed { .. } => unconfirmed(error),
        }
    }
}
