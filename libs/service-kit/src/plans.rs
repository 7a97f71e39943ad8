//! Pinned plans for services that run the same statements all the time.

use std::time::Duration;

use crate::Context;

const EACH: Duration = Duration::from_secs(10);

/// Pins the plans of the process when these tables have statistics. A plan that is made before may read all rows of an app.
pub async fn pin_with_statistics(context: Context, tables: &'static [&'static str]) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        match token.run_until_cancelled(context.store.pin_plans_with_statistics(tables)).await {
            None => return Ok(()),
            Some(Ok(true)) => {
                tracing::info!(?tables, "tables have statistics; pinning the plans of statements");
                return Ok(());
            }
            Some(Ok(false)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot read the statistics of tables; planning each statement meanwhile");
            }
        }
        if token.run_until_cancelled(tokio::time::sleep(EACH)).await.is_none() {
            return Ok(());
        }
    }
}
