//! Removing what is left of erased users.

use std::time::Duration;

use service_kit::Context;

use crate::janitor::is_anything_ahead;

/// Between two looks for erasures.
const PAUSE: Duration = Duration::from_secs(1);
/// Until another look at a user who cannot be done with yet.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Removes what is left of erased users until the process stops. Several instances share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        let more = match token.run_until_cancelled(round(&context)).await {
            None => return Ok(()),
            Some(Ok(more)) => more,
            Some(Err(error)) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "what is left of erased users is not removed yet"
                );
                false
            }
        };
        if !more {
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
}

/// Whether there was something to do.
async fn round(context: &Context) -> anyhow::Result<bool> {
    let pass = context.store.take_erased().await?;
    if pass.is_empty() {
        return Ok(false);
    }
    // Asked first: whatever was acted on until now has left its rows by now.
    let is_last = match pass.settled_since() {
        Some(since) => !is_anything_ahead(context, since).await?,
        None => false,
    };
    let is_whole = context.store.clear_erased(&pass).await?;
    context.store.end_pass(&pass, is_last && is_whole, AGAIN_AFTER).await?;
    Ok(true)
}
