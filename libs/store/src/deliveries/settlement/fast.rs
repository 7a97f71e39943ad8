//! The fast path of settling: attempts that end their deliveries and change nothing else.

use std::collections::HashSet;

use domain::{Outcome, Reason};
use uuid::Uuid;

use super::{RecordedStep, Settlement, number, provider_id};
use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Deliveries, Error};

impl Settlement {
    /// Returns true if the attempt ends its delivery and no target is dead.
    fn is_plain_end(&self) -> bool {
        matches!(self.next, RecordedStep::End(..)) && !matches!(self.answer.outcome, Outcome::TargetGone(_))
    }

    /// Returns the encoded job, if a receipt may follow.
    fn kept_job(&self) -> Option<&[u8]> {
        self.awaits_receipt().then_some(&*self.job.1)
    }
}

impl Deliveries<'_> {
    /// Settles attempts. Returns true for each settlement whose claim was still valid and whose
    /// [`RecordedStep`] was written. If the claim is no longer valid, nothing is written for this attempt. If the request is
    /// cancelled, the delivery becomes `cancelled` instead of being retried or parked.
    ///
    /// A cancellation or a later claim may have ended the delivery (`cancelled`, `expired`, `skipped` or `unknown`) before
    /// its answer arrives. The late answer then replaces this status, because only the answer shows what the provider did.
    ///
    /// Another worker may have read the old status before the late answer was written. It then publishes the old status and
    /// acknowledges the job. Therefore the transaction that records the late answer sets a timer that publishes the job again, and the worker that
    /// receives this job publishes the current state of the delivery.
    ///
    /// For an erased user, only the attempt and its outcome are written, without text or ids from the provider. Instead of
    /// being retried or parked, the delivery becomes `skipped`.
    ///
    /// Most attempts end their delivery and change nothing else. One statement settles all of these in a batch. What it leaves
    /// goes to [`settle_in_full`](Self::settle_in_full).
    ///
    /// # Errors
    /// Returns an error if the database fails. The settlements may still have been written. Safe to repeat.
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

    /// Settles plain ends whose claims are valid. Returns the tokens of these claims.
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
            attempt = number(settlement.attempt),
            status = settlement.next.status().0.as_str(),
            reason = settlement.next.status().1.map(Reason::as_str),
            message_id = provider_id(&settlement.answer),
            started_at = instant(settlement.started_at),
            ended_at = instant(settlement.ended_at),
            provider = settlement.provider.as_deref(),
            outcome = settlement.answer.outcome.name(),
            code = settlement.answer.code.as_str(),
            message = settlement.answer.message.as_str(),
            segments = settlement.answer.segments.map(number),
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
            &reason as &[Option<&str>],
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
