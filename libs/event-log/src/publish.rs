//! Appending messages, one or many.

use std::collections::VecDeque;
use std::error::Error as _;

use async_nats::Subject;
use async_nats::jetstream::context::{self, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use domain::StreamName;
use tokio::time::{Instant, timeout_at};

use crate::connection::EventLog;
use crate::error::{PublishError, Refusal};

/// Messages of one batch that may be on their way without an acknowledgement.
const WINDOW: usize = 256;

/// A message to append.
#[derive(Clone, Debug)]
pub struct Message {
    /// Where to.
    pub stream: StreamName,
    /// A second message with this id within 10 minutes is confirmed, but not stored again.
    pub id: Option<String>,
    /// The content. With the id it must fit the server's message size, 1 MiB by default.
    pub payload: Bytes,
}

/// A message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its sequence in the stream.
    pub seq: u64,
    /// An earlier message had the same id; `seq` is that one's.
    pub duplicate: bool,
}

/// A message that was handed to the connection.
struct Sent {
    stream: StreamName,
    deadline: Instant,
    ack: PublishAckFuture,
}

impl EventLog {
    /// Appends a message and waits for the acknowledgement, at most for the time limit of the settings.
    ///
    /// # Errors
    /// [`PublishError::Refused`]: certainly not stored. [`PublishError::Unconfirmed`]: perhaps stored.
    pub async fn publish(&self, message: Message) -> Result<Appended, PublishError> {
        self.send(message).await?.confirmed().await
    }

    /// Appends messages in their order, sending on before the acknowledgements are in. The results are in the same
    /// order. After the first unconfirmed message nothing further is sent; those are answered [`Refusal::NotSent`].
    pub async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<Appended, PublishError>> {
        let mut results = Vec::with_capacity(messages.len());
        let mut in_flight = VecDeque::with_capacity(WINDOW.min(messages.len()));
        let mut broken = false;
        for message in messages {
            if in_flight.len() == WINDOW
                && let Some(oldest) = in_flight.pop_front()
            {
                let result = settled(oldest).await;
                broken |= is_unconfirmed(&result);
                results.push(result);
            }
            let sent = if broken {
                Err(PublishError::Refused { stream: message.stream.to_string(), refusal: Refusal::NotSent })
            } else {
                self.send(message).await
            };
            broken |= is_unconfirmed(&sent);
            in_flight.push_back(sent);
        }
        for sent in in_flight {
            results.push(settled(sent).await);
        }
        results
    }

    async fn send(&self, message: Message) -> Result<Sent, PublishError> {
        let stream = message.stream;
        if !self.is_connected() {
            // The client would keep it, and the server store it after the caller has been told that nothing is.
            return Err(PublishError::Refused { stream: stream.to_string(), refusal: Refusal::NotSent });
        }
        let deadline = Instant::now() + self.ack_timeout;
        let mut outbound = PublishMessage::build().payload(message.payload);
        if let Some(id) = message.id {
            outbound = outbound.message_id(id);
        }
        let subject = Subject::from(stream.to_string());
        match timeout_at(deadline, self.context.send_publish(subject, outbound)).await {
            Ok(Ok(ack)) => Ok(Sent { stream, deadline, ack }),
            Ok(Err(error)) => Err(classify(stream, &error)),
            Err(_) => Err(unconfirmed(stream, "the connection did not take it in time")),
        }
    }
}

async fn settled(sent: Result<Sent, PublishError>) -> Result<Appended, PublishError> {
    sent?.confirmed().await
}

fn is_unconfirmed<T>(result: &Result<T, PublishError>) -> bool {
    matches!(result, Err(PublishError::Unconfirmed { .. }))
}

impl Sent {
    async fn confirmed(self) -> Result<Appended, PublishError> {
        match timeout_at(self.deadline, self.ack.into_future()).await {
            Ok(Ok(ack)) => Ok(Appended { seq: ack.sequence, duplicate: ack.duplicate }),
            Ok(Err(error)) => Err(classify(self.stream, &error)),
            Err(_) => Err(unconfirmed(self.stream, "no acknowledgement in time")),
        }
    }
}

/// Only what is known to happen before a message is stored counts as refused.
fn classify(stream: StreamName, error: &context::PublishError) -> PublishError {
    let refusal = match error.kind() {
        PublishErrorKind::StreamNotFound => Some(Refusal::NoStream),
        PublishErrorKind::MaxPayloadExceeded => Some(Refusal::TooLarge),
        _ => error.source().and_then(|source| source.downcast_ref()).and_then(refusal),
    };
    match refusal {
        Some(refusal) => PublishError::Refused { stream: stream.to_string(), refusal },
        None => unconfirmed(stream, error),
    }
}

fn refusal(error: &jetstream::Error) -> Option<Refusal> {
    match error.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Some(Refusal::TooLarge)
        }
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED => Some(Refusal::Full),
        // The code stands for any failure to store; only the limits are checked before replicas store the message.
        ErrorCode::STREAM_STORE_FAILED if error.to_string().starts_with("maximum ") => Some(Refusal::Full),
        _ => None,
    }
}

fn unconfirmed(stream: StreamName, reason: &(impl ToString + ?Sized)) -> PublishError {
    PublishError::Unconfirmed { stream: stream.to_string(), reason: reason.to_string() }
}
