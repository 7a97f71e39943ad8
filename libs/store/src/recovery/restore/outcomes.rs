//! Restore of outcomes: the states of deliveries, suppressions of targets, and cancellations of requests.

use domain::event::DeliverySettled;
use domain::{AppId, DeliveryId, Reason, SendId, Timestamp};
use sqlx::Connection as _;

use crate::Error;
use crate::database::instant::instant;
use crate::deliveries::cancellation;
use crate::deliveries::suppression::{self, DeadTarget};
use crate::recovery::restore::{Restore, number};

/// Code that is stored in place of the provider's code, which the log does not contain.
const CODE: &str = "restored";

/// An outcome found in the log.
#[derive(Clone, Debug)]
pub struct FoundOutcome {
    pub app: AppId,
    /// Time of the event.
    pub at: Timestamp,
    pub settled: DeliverySettled,
}

/// SQL expression for the rank of an outcome among the outcomes of the same attempt. An outcome from the provider's answer
/// ranks above an outcome that Tidings has set without an answer.
macro_rules! rank {
    ($status:literal) => {
        concat!(
            "CASE WHEN ",
            $status,
            " IN ('cancelled', 'expired', 'skipped') THEN 0 WHEN ",
            $status,
            " = 'unknown' THEN 1 WHEN ",
            $status,
            " = 'sent' THEN 2 ELSE 3 END"
        )
    };
}

impl Restore {
    /// Sets deliveries to the states in `outcomes`, which must be in the order of the log. Returns the number of changed
    /// deliveries. If the last outcome is a retry, but neither the backup contains the timer of this retry nor the log
    /// contains its job, the delivery becomes `sending`, because a worker may have received the job.
    ///
    /// An outcome may be published more than once. An attempt may also have two outcomes: one without the provider's answer,
    /// then one from the answer. Of the outcomes of the latest attempt, the outcome with the highest rank applies. If
    /// several have this rank, the last one in the log applies. A delivery that has already started its next attempt does
    /// not change. A parked delivery has not started its next attempt, although its row already contains the number of that
    /// attempt.
    ///
    /// # Errors
    /// Returns an error and changes no delivery if the database fails.
    pub async fn add_outcomes(&mut self, outcomes: &[FoundOutcome]) -> Result<u64, Error> {
        let changed: i64 = sqlx::query_scalar(concat!(
            "WITH new AS (
               SELECT DISTINCT ON (app_id, id) app_id, id, reason, provider, settled_at, attempt,
                 attempt + (status = 'parked')::int AS next_attempt, ",
            rank!("status"),
            " AS rank, CASE status WHEN 'retrying' THEN 'sending' ELSE status END AS status
               FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
                 WITH ORDINALITY AS found (app_id, id, attempt, status, reason, provider, settled_at, place)
               ORDER BY app_id, id, attempt DESC, rank DESC, place DESC
             ), changed AS (
               UPDATE delivery d SET status = new.status, reason = new.reason,
                 provider = coalesce(new.provider, d.provider), attempt = new.next_attempt,
                 calling = new.status = 'sending', lease_until = NULL,
                 settled_at = CASE WHEN new.status <> 'sending' THEN new.settled_at END
               FROM new WHERE (d.app_id, d.id) = (new.app_id, new.id)
                 AND (d.status, d.attempt) <> (new.status, new.next_attempt)
                 AND (new.attempt, new.rank) >= (d.attempt - (d.status = 'parked')::int,
                   CASE WHEN d.status IN ('queued', 'sending', 'retrying') THEN -1 ELSE ",
            rank!("d.status"),
            " END)
               RETURNING d.app_id, d.id
             ), awaiting AS (
               DELETE FROM awaiting_receipt a USING changed WHERE (a.app_id, a.delivery_id) = (changed.app_id, changed.id)
             ), parked AS (
               DELETE FROM parked p USING changed WHERE (p.app_id, p.delivery_id) = (changed.app_id, changed.id)
             )
             SELECT count(*) FROM changed"
        ))
        .bind(outcomes.iter().map(|outcome| outcome.app.0).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| outcome.settled.delivery_id.0).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| number(outcome.settled.attempt)).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| outcome.settled.status.as_str()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| outcome.settled.reason.map(Reason::as_str)).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| outcome.settled.provider.as_deref()).collect::<Vec<_>>())
        .bind(outcomes.iter().map(|outcome| instant(outcome.at)).collect::<Vec<_>>())
        .fetch_one(&mut self.connection)
        .await?;
        Ok(changed.cast_unsigned())
    }

    /// Suppresses targets that providers reported as dead at the given times, and removes their tokens and subscriptions.
    /// Skips tokens that were registered after that time. Returns the number of new suppressions.
    ///
    /// # Errors
    /// Returns an error and suppresses no target if the database fails.
    pub async fn add_suppressions(&mut self, dead: &[(AppId, DeliveryId, Timestamp)]) -> Result<u64, Error> {
        let dead: Vec<_> = dead
            .iter()
            .map(|&(app, delivery, at)| DeadTarget { app, delivery, code: CODE, since: Some(at) })
            .collect();
        let mut transaction = self.connection.begin().await?;
        let suppressed = suppression::suppress(&mut transaction, &dead).await?;
        transaction.commit().await?;
        Ok(suppressed.len() as u64)
    }

    /// Cancels requests again, including requests whose sends are parked in the backup. Returns the number of new
    /// cancellations.
    ///
    /// # Errors
    /// Returns an error and cancels nothing if the database fails.
    pub async fn add_cancellations(
        &mut self,
        cancelled: &[(AppId, SendId, Timestamp)],
    ) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        let mut count = 0;
        for (app, send_id, at) in cancelled {
            let parked = cancellation::stop_parked(&mut transaction, *app, *send_id).await?;
            let changed = sqlx::query(
                "UPDATE request SET cancelled_at = $3 WHERE app_id = $1 AND send_id = $2 AND cancelled_at IS NULL",
            )
            .bind(app.0)
            .bind(send_id.0)
            .bind(instant(*at))
            .execute(&mut *transaction)
            .await?;
            count += u64::from(parked > 0) + changed.rows_affected();
        }
        transaction.commit().await?;
        Ok(count)
    }
}
