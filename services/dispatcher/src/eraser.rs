//! Removing the remaining data of erased users.

use std::time::Duration;

use service_kit::Context;

use crate::janitor::is_anything_ahead;

/// Poll interval for erasures.
const PAUSE: Duration = Duration::from_secs(1);
/// Delay before the next pass over a user whose erasure cannot be completed yet.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Removes the remaining data of erased users until the process stops. Several instances share the work.
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

/// Makes one pass over some erased users. Returns true if there were any.
async fn round(context: &Context) -> anyhow::Result<bool> {
    let pass = context.store.erasure().take_erased().await?;
    if pass.is_empty() {
        return Ok(false);
    }
    // Read the log before clearing: every message that was acted on by now has already written its rows.
    let is_last = match pass.settled_since() {
        Some(since) => !is_anything_ahead(context, since).await?,
        None => false,
    };
    let is_whole = context.store.erasure().clear_erased(&pass).await?;
    context.store.erasure().end_pass(&pass, is_last && is_whole, AGAIN_AFTER).await?;
    Ok(true)
}
