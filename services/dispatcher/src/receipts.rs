//! Recording of delivery receipts that arrived before the provider's answer was settled.

use std::time::Duration;

use domain::retry::RetryPolicy;
use service_kit::{Context, clock};

/// Maximum number of receipts per round.
const ROUND: u32 = 500;
/// Interval between rounds.
const PAUSE: Duration = Duration::from_secs(1);

/// Tries regularly to record these receipts, until the process stops. Several dispatchers share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    while token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let round = context.store.deliveries().record_early_receipts(ROUND, &policy, clock::random());
        match token.run_until_cancelled(round).await {
            Some(Ok(recorded)) if recorded > 0 => {
                tracing::debug!(recorded, "recorded receipts that arrived before the delivery was settled");
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot record receipts that arrived before the delivery was settled; trying again");
            }
            _ => {}
        }
    }
    Ok(())
}
