//! Recording of an answer in the ledger. The answer exists only in this process, so it is recorded as far as PostgreSQL accepts it.

use std::time::Duration;

use store::deliveries::settlement::Settlement;

use crate::detours;
use crate::job::{Job, JobEnd};
use crate::ledger_batches::LedgerBatches;

/// Pause between two tries to settle an attempt.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);

/// Records the outcome. If PostgreSQL rejects the provider's answer, records it without the provider's text. If PostgreSQL
/// rejects that too, records only the status. Otherwise the job would be retried and the provider called again, only because
/// PostgreSQL cannot store a text. While the database is unavailable, retries without a limit. Returns the recorded settlement.
pub(crate) async fn record(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    settlement: Settlement,
) -> Result<Settlement, JobEnd> {
    let mut settlement = settlement;
    let mut settled = write(ledger, &settlement).await;
    if let Err(refused) = &settled {
        tracing::error!(
            error = %refused,
            "PostgreSQL rejected the provider's answer; recording it without the provider's text"
        );
        settlement = settlement.without_provider_text();
        settled = write(ledger, &settlement).await;
    }
    if let Err(refused) = &settled {
        tracing::error!(error = %refused, "PostgreSQL rejected the attempt; recording its status only");
        settlement = settlement.status_only();
        settled = ledger.store.deliveries().settle_status_only(&settlement).await;
    }
    match settled {
        Ok(true) => Ok(settlement),
        Ok(false) => Err(detours::after_losing_the_claim(ledger, job).await),
        Err(refused) => Err(park(job, &refused.to_string()).await),
    }
}

/// Writes a settlement. Retries until the database has recorded or rejected it. Returns false if the claim is lost.
async fn write(ledger: &LedgerBatches, settlement: &Settlement) -> Result<bool, store::Error> {
    loop {
        match ledger.settlements.call(settlement.clone()).await.flatten() {
            Ok(held) => return Ok(held),
            Err(error) if error.is_refused_data() => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot settle the delivery; trying again"),
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
}

/// Parks a job whose provider was called but whose outcome cannot be recorded. A retry would call the provider again.
async fn park(job: &Job<'_>, cause: &str) -> JobEnd {
    loop {
        match job.work_stream.park(job.delivered, job.owner(), cause).await {
            Ok(()) => return JobEnd::Acknowledge,
            Err(error) if error.is_refused_data() => return JobEnd::Failed(cause.to_owned()),
            Err(error) => tracing::warn!(%error, "cannot park the delivery; trying again"),
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
}
