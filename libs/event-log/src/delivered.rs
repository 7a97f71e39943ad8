//! A delivered message and its acknowledgement.

use std::sync::{Arc, Mutex, PoisonError};
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
    /// True if this is a part of a message that was divided.
    pub is_part: bool,
    answer: Arc<Answer>,
}

/// The answer to a message, which its parts share.
struct Answer {
    reply: Subject,
    log: EventLog,
    parts: Mutex<OpenParts>,
}

struct OpenParts {
    /// Number of parts that are neither acknowledged nor returned.
    open: usize,
    /// The shortest delay of the returned parts; None if no part was returned.
    returned: Option<Duration>,
}

impl DeliveredMessage {
    /// Returns `None` for a message that JetStream did not deliver.
    pub(crate) fn new(log: &EventLog, message: async_nats::Message) -> Option<DeliveredMessage> {
        let reply = message.reply?;
        let origin = Origin::parse(&reply)?;
        let parts = Mutex::new(OpenParts { open: 1, returned: None });
        Some(DeliveredMessage {
            payload: message.payload,
            seq: origin.seq,
            deliveries: origin.deliveries,
            published_at: origin.published_at,
            is_part: false,
            answer: Arc::new(Answer { reply, log: log.clone(), parts }),
        })
    }

    /// Divides the message into parts that are handled separately. Each part must be acknowledged or returned once. The server
    /// gets one answer, when this was done for all parts: an acknowledgement if all parts were acknowledged; otherwise it
    /// delivers the whole message again.
    #[must_use]
    pub fn divide(self, payloads: Vec<Bytes>) -> Vec<DeliveredMessage> {
        self.answer.lock().open = payloads.len();
        let is_part = payloads.len() > 1;
        let part = |payload| DeliveredMessage { payload, is_part, answer: Arc::clone(&self.answer), ..self };
        payloads.into_iter().map(part).collect()
    }

    /// Acknowledges the message, so that it is not delivered again. Returns true if the whole message is acknowledged now.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the acknowledgement in time.
    pub async fn ack(&self) -> Result<bool, Error> {
        self.answer.end_part(None).await
    }

    /// Returns the message to the server, which delivers it again after `delay`, or at once if `delay` is None.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the nak in time.
    pub async fn nak(&self, delay: Option<Duration>) -> Result<(), Error> {
        self.answer.end_part(Some(delay.unwrap_or_default())).await.map(drop)
    }

    /// Reports progress, which restarts the `ack_wait` of the message.
    ///
    /// # Errors
    /// Returns an error if the connection does not accept the report in time.
    pub async fn in_progress(&self) -> Result<(), Error> {
        self.answer.send(AckKind::Progress).await
    }
}

impl Answer {
    fn lock(&self) -> std::sync::MutexGuard<'_, OpenParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends one part, and answers the server after the last one. Returns true if the answer is an acknowledgement.
    async fn end_part(&self, returned: Option<Duration>) -> Result<bool, Error> {
        let answer = self.lock().end(returned);
        let Some(kind) = answer else { return Ok(false) };
        let is_ack = matches!(kind, AckKind::Ack);
        self.send(kind).await.map(|()| is_ack)
    }

    async fn send(&self, kind: AckKind) -> Result<(), Error> {
        match timeout(self.log.ack_timeout, self.log.client.publish(self.reply.clone(), kind.into())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::unavailable("accept an acknowledgement", error)),
            Err(_) => Err(Error::unavailable("accept an acknowledgement", "the connection is blocked")),
        }
    }
}

impl OpenParts {
    /// Ends one part. Returns the answer to the whole message if this was the last part.
    fn end(&mut self, returned: Option<Duration>) -> Option<AckKind> {
        self.returned = match (self.returned, returned) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
        self.open = self.open.saturating_sub(1);
        let answer = match self.returned {
            None => AckKind::Ack,
            Some(delay) => AckKind::Nak((delay > Duration::ZERO).then_some(delay)),
        };
        (self.open == 0).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_acknowledged_with_its_last_part_unless_one_was_returned() {
        let mut parts = OpenParts { open: 3, returned: None };
        assert!(parts.end(None).is_none());
        assert!(parts.end(None).is_none());
        assert!(matches!(parts.end(None), Some(AckKind::Ack)));

        let (soon, later) = (Duration::from_millis(700), Duration::from_secs(3));
        let mut parts = OpenParts { open: 3, returned: None };
        assert!(parts.end(Some(later)).is_none());
        assert!(parts.end(Some(soon)).is_none());
        assert!(matches!(parts.end(None), Some(AckKind::Nak(Some(delay))) if delay == soon));

        let mut parts = OpenParts { open: 2, returned: None };
        assert!(parts.end(Some(soon)).is_none());
        assert!(matches!(parts.end(Some(Duration::ZERO)), Some(AckKind::Nak(None))));
    }
}
