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
    /// A new unique id. If the receipt leads to another attempt, the job of that attempt is published under this id.
    pub id: Uuid,
    pub app: AppId,
    /// The delivery or message that the receipt reports on.
    pub about: ReceiptSubject,
    /// The classified answer. `Sent` means that the message was delivered. `Unknown` does not change the delivery.
    pub answer: Answer,
    /// Time at which the receipt arrived.
    pub at: Timestamp,
    /// Random number in 0..1 for the jitter of the next attempt's time.
    pub random: f64,
}

/// The subject of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptSubject {
    /// A delivery by its id, and the number of the attempt. If the provider does not report the number, it is None, which stands
    /// for the last attempt.
    Delivery(DeliveryId, Option<u32>),
    /// A message by the id that its provider assigned.
    Message {
        /// Identifier of the provider, unique in the app.
        provider: String,
        /// Message id from the provider's answer.
        id: String,
    },
    /// A message by the id in the receipt, which may be written in another notation than the id in the provider's answer.
    ReportedMessage(ReportedMessage),
}

/// State of a delivery when a receipt for it is processed.
#[derive(Clone, Debug)]
pub struct ReportedDelivery {
    pub app: AppId,
    pub id: DeliveryId,
    pub send_id: SendId,
    pub user: UserNumber,
    pub channel: Channel,
    pub status: Status,
    /// Number of the last attempt.
    pub attempt: u32,
    /// The provider of the last attempt.
    pub provider: Option<String>,
    pub expires_at: Option<Timestamp>,
    /// True if the user was erased.
    pub is_erased: bool,
    pub is_cancelled: bool,
    /// Stream and encoded job of the last attempt; None if the database does not hold the job.
    pub job: Option<(StreamName, Vec<u8>)>,
}

/// Effect of a receipt on its delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// No effect yet: the attempt is not settled.
    Early,
    /// No effect: the receipt is a repeat, its attempt is no longer the last attempt, or its answer adds nothing new.
    Unchanged,
    Change(Change),
}

/// The change that a receipt makes to its delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub status: Status,
    pub reason: Option<Reason>,
    /// The next attempt, if one may follow.
    pub next: Option<NextAttempt>,
}

/// The attempt after a receipt that reports a temporary failure.
#[derive(Clone, Debug, PartialEq)]
pub struct NextAttempt {
    pub stream: StreamName,
    pub job: Box<Envelope>,
    /// Time at which the job is published; None if it is parked.
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

    /// Decides the receipt's effect. `attempt` is the number of the attempt that the receipt names, or None for the last attempt.
    ///
    /// # Errors
    /// Returns an error if the stored job of the delivery is needed but cannot be decoded.
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

    /// Returns the number of attempts before the last one that ended in a temporary failure with a `RetryLimit`. Returns 0 if the
    /// receipt's outcome has no `RetryLimit` or the job is no longer stored.
    fn limited_retries(&self, delivery: &ReportedDelivery) -> Result<u32, DecodeError> {
        if !self.answer.outcome.is_limited() {
            return Ok(0);
        }
        Ok(match delivery.job()? {
            Some((_, Envelope { event: Event::DeliveryJob(job), .. })) => job.limited_retries,
            _ => 0,
        })
    }

    /// Turns the job of the last attempt into the job of the next attempt.
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

    /// Name under which the receipt's outcome is stored with the attempt.
    #[must_use]
    pub fn outcome_name(&self) -> &'static str {
        match &self.answer.outcome {
            Outcome::Sent { .. } => Status::Delivered.as_str(),
            refused => refused.name(),
        }
    }

    /// Returns true if the receipt suppresses the target: it reports the target dead, and the user was not erased. The target of
    /// an erased user is no longer stored.
    #[must_use]
    pub fn kills_target(&self, delivery: &ReportedDelivery) -> bool {
        matches!(self.answer.outcome, Outcome::TargetGone(_)) && !delivery.is_erased
    }

    /// Returns the events to publish for a change: the outcome and, if `is_suppressed`, the suppression of the target. A worker that
    /// gets the job of the attempt again publishes the same outcome under the same event ids.
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
    /// Decodes the stored job; None if no job is stored.
    fn job(&self) -> Result<Option<(StreamName, Envelope)>, DecodeError> {
        let Some((stream, message)) = &self.job else { return Ok(None) };
        let envelope = Envelope::decode(message)?;
        Ok(matches!(envelope.event, Event::DeliveryJob(_)).then_some((*stream, envelope)))
    }
}
