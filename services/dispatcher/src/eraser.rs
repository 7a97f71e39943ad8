//! Deletion of the data that remains after a user was erased.

use std::time::Duration;

use service_kit::Context;

use crate::janitor::is_anything_ahead;

const PAUSE: Duration = Duration::from_secs(1);
/// Delay before the next pass over a user whose data cannot be deleted completely yet.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Several dispatchers share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        let more = match token.run_until_cancelled(round(&context)).await {
            None => return Ok(()),
            Some(Ok(more)) => more,
            Some(Err(error)) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot remove the remaining data of erased users; trying again"
                );
                false
            }
        };
        if !more {
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
}

/// Returns true if there was a user to process.
async fn round(context: &Context) -> anyhow::Result<bool> {
    let pass = context.store.erasure().take_erased().await?;
    if pass.is_empty() {
        return Ok(false);
    }
    // Check the log before the rows are deleted. If a message is already processed, its rows exist, and this pass deletes them.
    // If a message is not processed yet, more rows may be written for it, so the erasure needs another pass.
    let is_last = match pass.settled_since() {
        Some(since) => !is_anything_ahead(context, since).await?,
        None => false,
    };
    let is_whole = context.store.erasure().clear_erased(&pass).await?;
    context.store.erasure().end_pass(&pass, is_last && is_whole, AGAIN_AFTER).await?;
    Ok(true)
}
