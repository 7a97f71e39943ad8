//! A message in the hands of a worker, and its answers to it.

use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use tokio::time::timeout;

use crate::connection::EventLog;
use crate::error::Error;
use crate::origin::Origin;

/// A message that a [`Consumer`](crate::Consumer) delivered. Without an answer it is delivered again after `ack_wait`.
///
/// Answers are sent, not confirmed: one that is lost, or that the server forgets in a crash, means another delivery.
pub struct Delivered {
    /// The content.
    pub payload: Bytes,
    /// Its sequence in the stream.
    pub seq: u64,
    /// How often it was delivered, this time included.
    pub deliveries: u64,
    /// When the server stored it, in Unix milliseconds.
    pub published_at: i64,
    reply: Subject,
    log: EventLog,
}

impl Delivered {
    /// `None` for a message that JetStream did not deliver.
    pub(crate) fn new(log: &EventLog, message: async_nats::Message) -> Option<Delivered> {
        let reply = message.reply?;
        let origin = Origin::parse(&reply)?;
        Some(Delivered {
            payload: message.payload,
            seq: origin.seq,
            deliveries: origin.deliveries,
            published_at: origin.published_at,
            reply,
            log: log.clone(),
        })
    }

    /// Done: not to be delivered again.
    ///
    /// # Errors
    /// When the connection does not take the answer in time.
    pub async fn ack(&self) -> Result<(), Error> {
        self.answer(AckKind::Ack).await
    }

    /// Not now: to be delivered again after `delay`, or at once.
    ///
    /// # Errors
    /// When the connection does not take the answer in time.
    pub async fn nak(&self, delay: Option<Duration>) -> Result<(), Error> {
        self.answer(AckKind::Nak(delay)).await
    }

    /// Still at work: `ack_wait` starts anew.
    ///
    /// # Errors
    /// When the connection does not take the answer in time.
    pub async fn in_progress(&self) -> Result<(), Error> {
        self.answer(AckKind::Progress).await
    }

    async fn answer(&self, kind: AckKind) -> Result<(), Error> {
        match timeout(self.log.ack_timeout, self.log.client.publish(self.reply.clone(), kind.into())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::unavailable("take the answer to a message", error)),
            Err(_) => Err(Error::unavailable("take the answer to a message", "the connection is held up")),
        }
    }
}
