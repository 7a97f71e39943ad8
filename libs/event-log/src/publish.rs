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

const WINDOW: usize = 256;

#[derive(Clone, Debug)]
pub struct Message {
    pub stream: StreamName,
    /// Id for de-duplication. A second message with the same id within 10 minutes is confirmed but not stored.
    pub id: Option<String>,
    /// Together with the id, it must fit the server's maximum message size, 1 MiB by default.
    pub payload: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishAck {
    pub seq: u64,
    /// True if an earlier message had the same id; `seq` is then that of the earlier message.
    pub duplicate: bool,
}

struct SentMessage {
    stream: StreamName,
    deadline: Instant,
    ack: PublishAckFuture,
}

impl EventLog {
    pub async fn publish(&self, message: Message) -> Result<PublishAck, PublishError> {
        self.send(message).await?.confirmation().await
    }

    /// Appends messages in order without waiting for each acknowledgement. As soon as a message is unconfirmed, no further messages are
    /// sent; their result is [`Refusal::NotSent`].
    pub async fn publish_all(&self, messages: Vec<Message>) -> Vec<Result<PublishAck, PublishError>> {
        let mut results = Vec::with_capacity(messages.len());
        let mut in_flight = VecDeque::with_capacity(WINDOW.min(messages.len()));
        let mut broken = false;
        for message in messages {
            if in_flight.len() == WINDOW
                && let Some(oldest) = in_flight.pop_front()
            {
                let result = confirmed(oldest).await;
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
            results.push(confirmed(sent).await);
        }
        results
    }

    async fn send(&self, message: Message) -> Result<SentMessage, PublishError> {
        let stream = message.stream;
        if !self.is_connected() {
            // If the message were sent now, the client would queue it. The server could then store it after the caller got an
            // error.
            return Err(PublishError::Refused { stream: stream.to_string(), refusal: Refusal::NotSent });
        }
        let deadline = Instant::now() + self.ack_timeout;
        let mut outbound = PublishMessage::build().payload(message.payload);
        if let Some(id) = message.id {
            outbound = outbound.message_id(id);
        }
        let subject = Subject::from(stream.to_string());
        match timeout_at(deadline, self.context.send_publish(subject, outbound)).await {
            Ok(Ok(ack)) => Ok(SentMessage { stream, deadline, ack }),
            Ok(Err(error)) => Err(classify(stream, &error)),
            Err(_) => Err(unconfirmed(stream, "the connection did not accept it in time")),
        }
    }
}

async fn confirmed(sent: Result<SentMessage, PublishError>) -> Result<PublishAck, PublishError> {
    sent?.confirmation().await
}

fn is_unconfirmed<T>(result: &Result<T, PublishError>) -> bool {
    matches!(result, Err(PublishError::Unconfirmed { .. }))
}

impl SentMessage {
    async fn confirmation(self) -> Result<PublishAck, PublishError> {
        match timeout_at(self.deadline, self.ack.into_future()).await {
            Ok(Ok(ack)) => Ok(PublishAck { seq: ack.sequence, duplicate: ack.duplicate }),
            Ok(Err(error)) => Err(classify(self.stream, &error)),
            Err(_) => Err(unconfirmed(self.stream, "no acknowledgement in time")),
        }
    }
}

/// An error counts as a refusal only if the server always reports it before it stores the message.
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
        // The server uses this code whenever it cannot store a message. If the text names a limit (`maximum …`), certainly no
        // replica has stored the message.
        ErrorCode::STREAM_STORE_FAILED if error.to_string().starts_with("maximum ") => Some(Refusal::Full),
        _ => None,
    }
}

fn unconfirmed(stream: StreamName, reason: &(impl ToString + ?Sized)) -> PublishError {
    PublishError::Unconfirmed { stream: stream.to_string(), reason: reason.to_string() }
}
