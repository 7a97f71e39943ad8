//! Recording receipts that came before the answer that they belong to was settled.

use std::time::Duration;

use domain::retry::RetryPolicy;
use service_kit::{Context, clock};

/// Receipts of one round at most.
const ROUND: u32 = 500;
/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks at early receipts again until the process stops. Several instances share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    while token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let round = context.store.record_early_receipts(ROUND, &policy, clock::random());
        match token.run_until_cancelled(round).await {
            Some(Ok(recorded)) if recorded > 0 => tracing::debug!(recorded, "early receipts recorded"),
            Some(Err(error)) => tracing::warn!(%error, "early receipts are not recorded yet"),
            _ => {}
        }
    }
    Ok(())
}
