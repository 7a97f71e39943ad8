use domain::event::DeliverySettled;
use domain::{AppId, DeliveryId, Reason, SendId, Timestamp};
use sqlx::Connection as _;

use crate::Error;
use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::deliveries::cancellation;
use crate::deliveries::suppression::{self, DeadTarget};
use crate::recovery::restore::Restore;

/// Stored in place of the provider's code, which the log does not contain.
const CODE: &str = "restored";

#[derive(Clone, Debug)]
pub struct FoundOutcome {
    pub app: AppId,
    pub at: Timestamp,
    pub settled: DeliverySettled,
}

impl Restore {
    /// Sets deliveries to the states in `outcomes`, which must be in the order of the log. If the last outcome is a retry whose timer is
    /// not in the backup and whose job is not in the log, the delivery becomes `sending`, because a worker may have received the job.
    ///
    /// An outcome may be published more than once. An attempt may also have two outcomes: one without the provider's answer, then one from
    /// the answer. Of the outcomes of the latest attempt, the outcome with the highest rank applies, and among these the last one in the
    /// log. A delivery that has already started its next attempt does not change. A parked delivery has not started its next attempt,
    /// although its row already contains the number of that attempt.
    pub async fn add_outcomes(&mut self, outcomes: &[FoundOutcome]) -> Result<u64, Error> {
        columns! { outcome in outcomes =>
            app_id = outcome.app.0,
            id = outcome.settled.delivery_id.0,
            attempt = integer(outcome.settled.attempt),
            status = outcome.settled.status.as_str(),
            reason = outcome.settled.reason.map(Reason::written),
            provider = outcome.settled.provider.as_deref(),
            settled_at = instant(outcome.at),
        }
        let changed = sqlx::query_file_scalar!(
            "src/recovery/restore/outcomes.sql",
            &app_id,
            &id,
            &attempt,
            &status as &[&str],
            &reason as &[Option<String>],
            &provider as &[Option<&str>],
            &settled_at
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(changed.cast_unsigned())
    }

    /// Suppresses dead targets at the given times, and removes their tokens and subscriptions. Skips a token that was registered after this
    /// time. Returns the number of new suppressions.
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

    /// Includes requests whose sends are parked in the backup. Returns the number of new cancellations.
    pub async fn add_cancellations(
        &mut self,
        cancelled: &[(AppId, SendId, Timestamp)],
    ) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        let mut count = 0;
        for (app, send_id, at) in cancelled {
            let parked = cancellation::stop_parked(&mut transaction, *app, *send_id).await?;
            let changed = sqlx::query!(
                "UPDATE request SET cancelled_at = $3 WHERE app_id = $1 AND send_id = $2 AND cancelled_at IS NULL",
                app.0,
                send_id.0,
                instant(*at)
            )
            .execute(&mut *transaction)
            .await?;
            count += u64::from(parked.is_some()) + changed.rows_affected();
        }
        transaction.commit().await?;
        Ok(count)
    }
}
