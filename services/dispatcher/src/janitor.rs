//! Removing what nobody needs any more: from the log what is older than the retention and has been read by everybody,
//! from the database idempotency keys that have become free.

use std::time::Duration;

use domain::StreamName;
use service_kit::{Context, clock};
use store::projection::INBOX;

use crate::intake::DURABLE;

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(60);
/// Share of a stream's message limit above which its read part goes early.
const CROWDED: f64 = 0.7;

/// Idempotency keys that one statement removes.
const KEYS: u32 = 5_000;

/// Cleans up until the process stops. Several instances may do it at once: purging twice is harmless.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let streams = StreamName::all(context.partitions);
    while token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        for &stream in &streams {
            if let Some(Err(error)) = token.run_until_cancelled(clean(&context, stream)).await {
                tracing::warn!(%stream, error = format!("{error:#}"), "the stream is not cleaned up");
            }
        }
        if let Some(Err(error)) = token.run_until_cancelled(forget_keys(&context)).await {
            tracing::warn!(%error, "free idempotency keys are not removed");
        }
    }
    Ok(())
}

async fn forget_keys(context: &Context) -> Result<(), store::Error> {
    while context.store.forget_free_keys(KEYS).await? == u64::from(KEYS) {}
    Ok(())
}

async fn clean(context: &Context, stream: StreamName) -> anyhow::Result<()> {
    let state = context.log.state(stream).await?;
    if state.messages == 0 {
        return Ok(());
    }
    // Nobody consumes OUTCOME yet: there age alone decides.
    let read = match read_up_to(context, stream).await? {
        Some(read) => read,
        None if stream == StreamName::Outcome => state.last_seq,
        None => return Ok(()),
    };
    let keep_from = if state.fill > CROWDED {
        read + 1
    } else {
        first_younger(context, stream, state.first_seq, read + 1).await?
    };
    let purged = context.log.purge_below(stream, keep_from).await?;
    if purged > 0 {
        tracing::info!(%stream, purged, keep_from, "old messages removed");
    }
    Ok(())
}

/// The last sequence up to which everybody has read; None where nobody has begun.
pub(crate) async fn read_up_to(context: &Context, stream: StreamName) -> anyhow::Result<Option<u64>> {
    if matches!(stream, StreamName::Inbox(_)) {
        return Ok(Some(context.store.checkpoint(INBOX, stream).await?));
    }
    let Some(durable) = durable_of(stream) else {
        return Ok(None);
    };
    Ok(context.log.consumer_progress(stream, durable).await?.map(|progress| progress.ack_floor))
}

/// The durable consumer of a stream.
fn durable_of(stream: StreamName) -> Option<&'static str> {
    match stream {
        StreamName::Send(_) => Some(DURABLE),
        StreamName::Job(channel, _) => Some(channel.as_str()),
        StreamName::Inbox(_) | StreamName::Outcome => None,
    }
}

/// The first sequence in `from..to` that is younger than the retention, found by halving; `to` when there is none.
async fn first_younger(context: &Context, stream: StreamName, from: u64, to: u64) -> anyhow::Result<u64> {
    let oldest = clock::now() - context.config.streams.retention;
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        match context.log.published_at(stream, middle).await? {
            Some(at) if at >= oldest.millis() => high = middle,
            _ => low = middle + 1,
        }
    }
    Ok(low)
}
