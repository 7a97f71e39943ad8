//! A delivered message and its acknowledgement.

use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use tokio::time::timeout;

use crate::connection::EventLog;
use crate::error::Error;
use crate::origin::Origin;

/// A message that a [`Consumer`](crate::Consumer) delivered. If the message is not acknowledged, it is delivered again after
/// `ack_wait`.
///
/// The server does not confirm acknowledgements. If an acknowledgement is lost, for example in a crash of the server, the message
/// is delivered again.
pub struct DeliveredMessage {
    pub payload: Bytes,
    /// Sequence in the stream.
    pub seq: u64,
    /// Number of deliveries, including this one.
    pub deliveries: u64,
    /// Time at which the server stored the message, in Unix milliseconds.
    pub published_at: i64,
    reply: Subject,
    log: EventLog,
}

impl DeliveredMessage {
    /// Returns `None` for a message that JetStream did not deliver.
    pub(crate) fn new(log: &EventLog, message: async_nats::Message) -> Option<DeliveredMessage> {
        let reply = message.reply?;
        let origin = Origin::parse(&reply)?;
        Some(DeliveredMessage {
            payload: message.payload,
            seq: origin.seq,
            deliveries: origin.deliveries,
            published_at: origin.published_at,
            reply,
            log: log.clone(),
        })
    }

    /// Acknowledges the message, so that it is not delivered again.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the acknowledgement in time.
    pub async fn ack(&self) -> Result<(), Error> {
        self.answer(AckKind::Ack).await
    }

    /// Returns the message to the server, which delivers it again after `delay`, or at once if `delay` is None.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the nak in time.
    pub async fn nak(&self, delay: Option<Duration>) -> Result<(), Error> {
        self.answer(AckKind::Nak(delay)).await
    }

    /// Reports progress, which restarts the `ack_wait` of the message.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the report in time.
    pub async fn in_progress(&self) -> Result<(), Error> {
        self.answer(AckKind::Progress).await
    }

    async fn answer(&self, kind: AckKind) -> Result<(), Error> {
        match timeout(self.log.ack_timeout, self.log.client.publish(self.reply.clone(), kind.into())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::unavailable("accept an acknowledgement", error)),
            Err(_) => Err(Error::unavailable("accept an acknowledgement", "the connection is blocked")),
        }
    }
}
