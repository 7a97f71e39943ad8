//! Receipts: a provider's later reports on a message that it accepted or may have accepted.
//!
//! A receipt changes a delivery only if the delivery is `sent` or `unknown` and the receipt reports on the last attempt. Receipts
//! may arrive repeatedly, late and in any order.

mod message_id;

use uuid::Uuid;

use crate::event::{DecodeError, DeliverySettled, TargetSuppressed};
use crate::retry::{FinishedAttempt, RetryDecision, RetryPolicy};
use crate::transition::Step;
use crate::{
    Answer, AppId, Channel, DeliveryId, Envelope, Event, Outcome, Reason, SendId, Status, StreamName,
    Timestamp, UserNumber,
};

pub use message_id::{Candidate, IdNotation, ReportedMessage, key, number_end};

/// A final receipt. Reports of an intermediate state (queued, in transit) are not receipts.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// If the receipt leads to another attempt, the job of that attempt is published under this id.
    pub id: Uuid,
    pub app: AppId,
    pub about: ReceiptSubject,
    /// `Sent` means that the message was delivered. `Unknown` does not change the delivery.
    pub answer: Answer,
    /// Arrival of the receipt.
    pub at: Timestamp,
    /// Number in 0..1, for the jitter of the next attempt's time.
    pub random: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptSubject {
    /// A delivery, and the number of the attempt; None stands for the last attempt.
    Delivery(DeliveryId, Option<u32>),
    Message {
        provider: String,
        id: String,
    },
    /// The receipt may write the id in another notation than the provider's answer.
    ReportedMessage(ReportedMessage),
}

#[derive(Clone, Debug)]
pub struct ReportedDelivery {
    pub app: AppId,
    pub id: DeliveryId,
    pub send_id: SendId,
    pub user: UserNumber,
    pub channel: Channel,
    pub status: Status,
    pub attempt: u32,
    pub provider: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub is_erased: bool,
    pub is_cancelled: bool,
    /// Stream and encoded job of the last attempt, if the database still holds them.
    pub job: Option<(StreamName, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// No effect yet: the attempt is not settled.
    Early,
    /// The receipt is a repeat, its attempt is no longer the last one, or its answer adds nothing new.
    Unchanged,
    Change(Change),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub status: Status,
    pub reason: Option<Reason>,
    pub next: Option<NextAttempt>,
}

/// Follows a receipt that reports a temporary failure.
#[derive(Clone, Debug, PartialEq)]
pub struct NextAttempt {
    pub stream: StreamName,
    pub job: Box<Envelope>,
    /// None if the job is parked.
    pub due_at: Option<Timestamp>,
}

impl Receipt {
    /// Removes U+0000 and truncates long texts, so that PostgreSQL can store the receipt.
    #[must_use]
    pub fn storable(mut self) -> Receipt {
        if let ReceiptSubject::Message { provider, id }
        | ReceiptSubject::ReportedMessage(ReportedMessage { provider, id, .. }) = &mut self.about
        {
            provider.retain(|c| c != '\0');
            id.retain(|c| c != '\0');
        }
        Receipt { answer: self.answer.storable(), ..self }
    }

    /// Decides the receipt's effect. `attempt` is the number that the receipt names, or None for the last attempt. Fails if the stored job
    /// is needed but cannot be decoded.
    pub fn effect(
        &self,
        attempt: Option<u32>,
        delivery: &ReportedDelivery,
        policy: &RetryPolicy,
    ) -> Result<Effect, DecodeError> {
        if attempt.is_some_and(|attempt| attempt != delivery.attempt) {
            return Ok(Effect::Unchanged);
        }
        if delivery.status == Status::Sending {
            return Ok(Effect::Early);
        }
        if !Step::Report.starts_from(delivery.status) {
            return Ok(Effect::Unchanged);
        }
        let finished = FinishedAttempt {
            channel: delivery.channel,
            attempt: delivery.attempt,
            outcome: &self.answer.outcome,
            limited_retries: self.limited_retries(delivery)?,
            // A receipt never leaves the outcome unknown.
            doubts: 0,
            now: self.at,
            expires_at: delivery.expires_at,
            random: self.random,
        };
        Ok(match policy.decide_receipt(finished) {
            None => Effect::Unchanged,
            Some(decision) => Effect::Change(self.change(delivery, &decision)?),
        })
    }

    fn change(&self, delivery: &ReportedDelivery, decision: &RetryDecision) -> Result<Change, DecodeError> {
        let end = |status, reason| Change { status, reason, next: None };
        let due_at = match decision {
            RetryDecision::End(status, reason) => return Ok(end(*status, *reason)),
            RetryDecision::RetryAt(at) => Some(*at),
            RetryDecision::Park => None,
        };
        if delivery.is_erased {
            return Ok(end(Status::Skipped, Some(Reason::RecipientErased)));
        }
        if delivery.is_cancelled {
            return Ok(end(Status::Cancelled, Some(Reason::RequestCancelled)));
        }
        let Some((stream, mut job)) = delivery.job()? else {
            // Without its job, the delivery cannot be attempted again.
            return Ok(end(Status::Failed, Some(Reason::RetriesExhausted)));
        };
        self.renew(&mut job, delivery, due_at.is_none());
        let next = Some(NextAttempt { stream, job: Box::new(job), due_at });
        Ok(match due_at {
            Some(_) => Change { status: Status::Retrying, reason: None, next },
            None => Change { status: Status::Parked, reason: Some(Reason::RetriesExhausted), next },
        })
    }

    /// Number of earlier attempts that ended in a temporary failure with a `RetryLimit`; 0 if the receipt's outcome has none or the job is
    /// no longer stored.
    fn limited_retries(&self, delivery: &ReportedDelivery) -> Result<u32, DecodeError> {
        if !self.answer.outcome.is_limited() {
            return Ok(0);
        }
        Ok(match delivery.job()? {
            Some((_, Envelope { event: Event::DeliveryJob(job), .. })) => job.limited_retries,
            _ => 0,
        })
    }

    fn renew(&self, envelope: &mut Envelope, delivery: &ReportedDelivery, is_parked: bool) {
        let Event::DeliveryJob(job) = &mut envelope.event else { return };
        job.attempt = delivery.attempt + 1;
        // After a redrive, the counts start again at 0.
        job.doubts = if is_parked { 0 } else { job.doubts };
        job.limited_retries =
            if is_parked { 0 } else { job.limited_retries + u32::from(self.answer.outcome.is_limited()) };
        // The provider reported that the message was not delivered, so any provider may be called now. If the outcome is
        // `PauseProvider`, the provider that reported it is called last.
        job.route.unbind();
        if self.answer.outcome == Outcome::PauseProvider {
            job.route.passed_over.extend(delivery.provider.clone());
        }
        envelope.caused_by = Some(envelope.id);
        envelope.id = self.id;
        envelope.at = self.at;
    }

    #[must_use]
    pub fn outcome_name(&self) -> &'static str {
        match &self.answer.outcome {
            Outcome::Sent { .. } => Status::Delivered.as_str(),
            refused => refused.name(),
        }
    }

    /// Returns true if the receipt suppresses the target. The target of an erased user is no longer stored.
    #[must_use]
    pub fn kills_target(&self, delivery: &ReportedDelivery) -> bool {
        matches!(self.answer.outcome, Outcome::TargetGone(_)) && !delivery.is_erased
    }

    /// Events to publish for a change: the outcome and, if `is_suppressed`, the suppression of the target. A worker that gets the job again
    /// publishes the same outcome under the same event ids.
    #[must_use]
    pub fn events(&self, delivery: &ReportedDelivery, change: &Change, is_suppressed: bool) -> Vec<Envelope> {
        let ReportedDelivery { id: delivery_id, channel, user, .. } = *delivery;
        let settled = DeliverySettled {
            delivery_id,
            channel,
            user,
            attempt: delivery.attempt,
            status: change.status,
            reason: change.reason,
            provider: delivery.provider.clone(),
        };
        let [(_, of_outcome), (_, of_suppression)] = ["settled", "suppressed"].map(|what| settled.ids(what));
        let mut events = vec![(of_outcome, Event::DeliverySettled(settled))];
        if is_suppressed {
            let suppressed = TargetSuppressed { delivery_id, channel, user };
            events.push((of_suppression, Event::TargetSuppressed(suppressed)));
        }
        let envelope = |(id, event): (Uuid, Event)| Envelope {
            id,
            app: delivery.app,
            at: self.at,
            send_id: Some(delivery.send_id),
            caused_by: None,
            trace: None,
            event,
        };
        events.into_iter().map(envelope).collect()
    }
}

impl ReportedDelivery {
    fn job(&self) -> Result<Option<(StreamName, Envelope)>, DecodeError> {
        let Some((stream, message)) = &self.job else { return Ok(None) };
        let envelope = Envelope::decode(message)?;
        Ok(matches!(envelope.event, Event::DeliveryJob(_)).then_some((*stream, envelope)))
    }
}
