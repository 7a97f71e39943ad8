use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use tokio::time::timeout;

use crate::connection::EventLog;
use crate::error::Error;
use crate::origin::Origin;

/// A message that a [`Consumer`](crate::Consumer) delivered. Without an acknowledgement, it is delivered again after `ack_wait`. The server
/// does not confirm acknowledgements, so one may be lost, for example in a crash of the server.
pub struct DeliveredMessage {
    pub payload: Bytes,
    pub seq: u64,
    pub deliveries: u64,
    /// Unix milliseconds, by the server's clock.
    pub published_at: i64,
    pub is_part: bool,
    answer: Arc<Answer>,
}

struct Answer {
    reply: Subject,
    log: EventLog,
    parts: Mutex<OpenParts>,
}

struct OpenParts {
    open: usize,
    /// Shortest delay of the returned parts; None if no part was returned.
    returned: Option<Duration>,
}

impl DeliveredMessage {
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

    /// Divides the message into parts, each of which must be acknowledged or returned once. The server then gets one answer: an
    /// acknowledgement only if all parts were acknowledged.
    #[must_use]
    pub fn divide(self, payloads: Vec<Bytes>) -> Vec<DeliveredMessage> {
        self.answer.lock().open = payloads.len();
        let is_part = payloads.len() > 1;
        let part = |payload| DeliveredMessage { payload, is_part, answer: Arc::clone(&self.answer), ..self };
        payloads.into_iter().map(part).collect()
    }

    /// Returns true if the whole message is acknowledged now. Fails if the connection does not accept the acknowledgement in time.
    pub async fn ack(&self) -> Result<bool, Error> {
        self.answer.end_part(None).await
    }

    /// Redelivered after `delay`, or at once if it is None.
    pub async fn nak(&self, delay: Option<Duration>) -> Result<(), Error> {
        self.answer.end_part(Some(delay.unwrap_or_default())).await.map(drop)
    }

    /// Restarts the `ack_wait` of the message.
    pub async fn in_progress(&self) -> Result<(), Error> {
        self.answer.send(AckKind::Progress).await
    }
}

impl Answer {
    fn lock(&self) -> std::sync::MutexGuard<'_, OpenParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
