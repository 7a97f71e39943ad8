//! Removing what is left of erased users.

use std::time::Duration;

use domain::{StreamName, Timestamp};
use service_kit::Context;

use crate::janitor::read_up_to;

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
    context.store.clear_erased(&pass).await?;
    context.store.end_pass(&pass, is_last, AGAIN_AFTER).await?;
    Ok(true)
}

/// Whether the log holds anything up to `since` that is still to be acted on, and could write of a user again.
async fn is_anything_ahead(context: &Context, since: Timestamp) -> anyhow::Result<bool> {
    for stream in StreamName::all(context.partitions) {
        if stream == StreamName::Outcome {
            continue;
        }
        let state = context.log.state(stream).await?;
        let next = match read_up_to(context, stream).await? {
            Some(read) => (read + 1).max(state.first_seq),
            None => state.first_seq,
        };
        if state.messages == 0 || next > state.last_seq {
            continue;
        }
        let published = context.log.published_at(stream, next).await?;
        if published.is_none_or(|at| at <= since.millis()) {
            return Ok(true);
        }
    }
    Ok(false)
}
