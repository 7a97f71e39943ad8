//! Settlement of attempts: a worker records the outcome of its attempt, which ends its claim. Only the worker with the current claim can
//! settle.

mod full;

use std::collections::HashSet;

use bytes::Bytes;
use domain::{Answer, AppId, DeliveryId, Outcome, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use uuid::Uuid;

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::deliveries::timer::NewTimer;
use crate::{Deliveries, Error};

#[derive(Clone, Debug)]
pub struct Settlement {
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub delivery: DeliveryId,
    pub user: UserNumber,
    pub token: Uuid,
    pub attempt: u32,
    /// None if no provider was called.
    pub provider: Option<String>,
    /// Start of the provider call.
    pub started_at: Timestamp,
    /// Arrival of the provider's answer.
    pub ended_at: Timestamp,
    pub answer: Answer,
    pub next: RecordedStep,
    /// The encoded job of the attempt and its stream, for publishing it again if the answer arrives after the delivery has ended, or if a
    /// receipt asks for another attempt.
    pub job: (StreamName, Bytes),
    /// True if the provider may send a receipt for a message that it accepted.
    pub receipts: bool,
}

impl Settlement {
    /// Returns a copy for an answer that PostgreSQL rejected. The copy does not store the job for a receipt.
    #[must_use]
    pub fn without_provider_text(&self) -> Settlement {
        let outcome = match &self.answer.outcome {
            Outcome::Sent { .. } => Outcome::Sent { provider_id: None },
            other => other.clone(),
        };
        let message = "PostgreSQL rejected the provider's answer";
        Settlement { answer: Answer::new(outcome, "unstorable", message), receipts: false, ..self.clone() }
    }

    /// Returns a copy that only ends the delivery, for a settlement that PostgreSQL rejects even without the provider's text. A delivery
    /// that would be retried or parked becomes `failed` instead.
    #[must_use]
    pub fn status_only(&self) -> Settlement {
        let next = match &self.next {
            RecordedStep::End(status, reason) => RecordedStep::End(*status, *reason),
            RecordedStep::Retry(_) | RecordedStep::Park(..) => {
                RecordedStep::End(Status::Failed, Some(Reason::RetriesExhausted))
            }
        };
        Settlement { next, ..self.without_provider_text() }
    }

    /// A receipt may follow only if the provider accepted the message or may have accepted it.
    fn awaits_receipt(&self) -> bool {
        let is_open = matches!(self.next, RecordedStep::End(Status::Sent | Status::Unknown, _));
        is_open && self.receipts
    }

    fn is_plain_end(&self) -> bool {
        matches!(self.next, RecordedStep::End(..)) && !matches!(self.answer.outcome, Outcome::TargetGone(_))
    }

    fn kept_job(&self) -> Option<&[u8]> {
        self.awaits_receipt().then_some(&*self.job.1)
    }
}

#[derive(Clone, Debug)]
pub enum RecordedStep {
    End(Status, Option<Reason>),
    /// The timer publishes the job of another attempt.
    Retry(NewTimer),
    /// Stream and message that a redrive publishes.
    Park(StreamName, Vec<u8>),
}

impl RecordedStep {
    #[must_use]
    pub fn status(&self) -> (Status, Option<Reason>) {
        match self {
            RecordedStep::End(status, reason) => (*status, *reason),
            RecordedStep::Retry(_) => (Status::Retrying, None),
            RecordedStep::Park(..) => (Status::Parked, Some(Reason::RetriesExhausted)),
        }
    }
}

impl Deliveries<'_> {
    /// Settles attempts. Returns true for each settlement whose claim was still valid and whose [`RecordedStep`] was written. If the claim
    /// is no longer valid, nothing is written for this attempt. If the request is cancelled, the delivery becomes `cancelled` instead of
    /// being retried or parked. After an error, the settlements may still have been written. Safe to repeat.
    ///
    /// A cancellation or a later claim may have ended the delivery (`cancelled`, `expired`, `skipped` or `unknown`) before its answer
    /// arrives. The late answer then replaces this status, because only the answer shows what the provider did. Another worker may already
    /// have published the old status, so the same transaction sets a timer that publishes the job again; the worker that receives it
    /// publishes the current state.
    ///
    /// For an erased user, only the attempt and its outcome are written, without text or ids from the provider. Instead of being retried or
    /// parked, the delivery becomes `skipped`.
    ///
    /// Most attempts end their delivery and change nothing else. One statement settles all of these in a batch. The rest goes to
    /// [`settle_in_full`](Self::settle_in_full).
    pub async fn settle(self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
        let settled = self.settle_plain_ends(settlements).await?;
        let left: Vec<Settlement> =
            settlements.iter().filter(|settlement| !settled.contains(&settlement.token)).cloned().collect();
        if left.is_empty() {
            return Ok(vec![true; settlements.len()]);
        }
        let mut in_full = self.settle_in_full(&left).await?.into_iter();
        let result = |settlement: &Settlement| {
            settled.contains(&settlement.token) || in_full.next().unwrap_or_default()
        };
        Ok(settlements.iter().map(result).collect())
    }

    /// Returns the tokens of the claims that were valid.
    async fn settle_plain_ends(self, settlements: &[Settlement]) -> Result<HashSet<Uuid>, Error> {
        let mut plain: Vec<_> = settlements.iter().filter(|settlement| settlement.is_plain_end()).collect();
        if plain.is_empty() {
            return Ok(HashSet::new());
        }
        // Every statement on several deliveries locks them in this order, so that no two statements wait for each other.
        plain.sort_unstable_by_key(|settlement| (settlement.app, settlement.delivery));
        columns! { settlement in plain =>
            app_id = settlement.app.0,
            id = settlement.delivery.0,
            token = settlement.token,
            attempt = integer(settlement.attempt),
            status = settlement.next.status().0.as_str(),
            reason = settlement.next.status().1.map(Reason::written),
            message_id = provider_id(&settlement.answer),
            started_at = instant(settlement.started_at),
            ended_at = instant(settlement.ended_at),
            provider = settlement.provider.as_deref(),
            outcome = settlement.answer.outcome.name(),
            code = settlement.answer.code.as_str(),
            message = settlement.answer.message.as_str(),
            segments = settlement.answer.segments.map(integer),
            stream = settlement.kept_job().map(|_| settlement.job.0.to_string()),
            job = settlement.kept_job(),
        }
        let tokens = sqlx::query_file_scalar!(
            "src/deliveries/settle_fast.sql",
            &app_id,
            &id,
            &token,
            &attempt,
            &status as &[&str],
            &reason as &[Option<String>],
            &message_id as &[Option<&str>],
            &started_at,
            &ended_at,
            &provider as &[Option<&str>],
            &outcome as &[&str],
            &code as &[&str],
            &message as &[&str],
            &segments as &[Option<i32>],
            &stream as &[Option<String>],
            &job as &[Option<&[u8]>]
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(tokens.into_iter().collect())
    }
}

fn provider_id(answer: &Answer) -> Option<&str> {
    match &answer.outcome {
        Outcome::Sent { provider_id } => provider_id.as_deref(),
        _ => None,
    }
}
