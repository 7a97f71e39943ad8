//! Removal of data that is no longer needed. A message of the log is removed only if every reader has read it.

use std::time::Duration;

use domain::{StreamName, Timestamp};
use event_log::StreamState;
use service_kit::{Context, clock};
use store::control::refused_call::KEPT;
use store::database::failure::Reader;
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;
use tokio::time::Instant;

use crate::backpressure::Backpressure;
use crate::intake::DURABLE;

const PAUSE: Duration = Duration::from_secs(60);
const CROWDED_PAUSE: Duration = Duration::from_secs(1);
/// Fill of a stream or of the store at which read messages are removed before the end of their retention, until the fill is down to
/// [`ROOMY`].
const CROWDED: f64 = 0.7;
const ROOMY: f64 = 0.6;

/// Idempotency or cancellation keys per statement.
const KEYS: u32 = 5_000;
/// Idempotency keys that were locked when they were to be removed are found within this time.
const ALL_KEYS_EACH: Duration = Duration::from_secs(3_600);
/// Messages without receipts per statement. A message may be up to half a megabyte in size.
const MESSAGES: u32 = 1_000;
/// Attachments checked per statement.
const FILES: u32 = 100;
/// Refused calls per statement, and how long they are kept. Of each app, only the latest are kept.
const REFUSED_CALLS: u32 = 5_000;
const REFUSED_CALLS_FOR: Duration = Duration::from_secs(14 * 86_400);
/// Redrives per statement, and how long they are kept after their end.
const REDRIVES: u32 = 1_000;
const REDRIVES_FOR: Duration = Duration::from_secs(90 * 86_400);

/// Several dispatchers may do this at once, because removing twice is harmless.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let streams = StreamName::all(context.partitions);
    forget_all_marks(&context, &streams).await;
    // While a transaction is open, the keys that were removed are still in the index. Each round starts where the last one ended.
    let (mut from, mut restart_at) = (None, Instant::now());
    while token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        forget_all_marks(&context, &streams).await;
        let Some(store) = token.run_until_cancelled(store_fill(&context)).await else { break };
        for &stream in &streams {
            if let Some(Err(error)) = token.run_until_cancelled(clean(&context, stream, store)).await {
                tracing::warn!(%stream, error = format!("{error:#}"), "cannot remove old messages of a stream; trying again");
            }
        }
        if Instant::now() >= restart_at {
            (from, restart_at) = (None, Instant::now() + ALL_KEYS_EACH);
        }
        let forget_keys = async {
            while context.store.sends().forget_free_keys(KEYS, &mut from).await? == u64::from(KEYS) {}
            Ok::<_, store::Error>(())
        };
        if let Some(Err(error)) = token.run_until_cancelled(forget_keys).await {
            tracing::warn!(%error, "cannot remove expired idempotency keys; trying again");
        }
        if let Some(Err(error)) = token.run_until_cancelled(forget_awaited(&context)).await {
            tracing::warn!(%error, "cannot remove messages that have waited too long for a receipt; trying again");
        }
        if let Some(Err(error)) = token.run_until_cancelled(remove_refused_calls(&context)).await {
            tracing::warn!(%error, "cannot remove old refused calls; trying again");
        }
        if let Some(Err(error)) = token.run_until_cancelled(remove_redrives(&context)).await {
            tracing::warn!(%error, "cannot remove old redrives; trying again");
        }
        if let Some(Err(error)) = token.run_until_cancelled(remove_files_and_keys(&context)).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot remove old attachments or cancellation keys; trying again"
            );
        }
    }
    Ok(())
}

pub(crate) async fn make_room(context: Context, backpressure: Backpressure) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    while token.run_until_cancelled(tokio::time::sleep(CROWDED_PAUSE)).await.is_some() {
        let crowded: Vec<_> = backpressure.crowded(CROWDED).collect();
        if crowded.is_empty() {
            continue;
        }
        let Some(store) = token.run_until_cancelled(store_fill(&context)).await else { break };
        for stream in crowded {
            if let Some(Err(error)) = token.run_until_cancelled(clean(&context, stream, store)).await {
                tracing::warn!(
                    %stream,
                    error = format!("{error:#}"),
                    "cannot remove old messages of a nearly full stream; trying again"
                );
            }
        }
    }
    Ok(())
}

async fn forget_all_marks(context: &Context, streams: &[StreamName]) {
    let token = context.tasks.token();
    for &stream in streams {
        if let Some(Err(error)) = token.run_until_cancelled(forget_marks(context, stream)).await {
            tracing::warn!(%stream, error = format!("{error:#}"), "cannot remove the marks of processed messages; trying again");
        }
    }
}

/// Removes marks that stayed because the database failed when their messages were acknowledged.
async fn forget_marks(context: &Context, stream: StreamName) -> anyhow::Result<()> {
    let database = context.store.database();
    if durable_of(stream).is_some()
        && let Some(read) = read_up_to(context, stream).await?
    {
        database.forget_handlings(Reader::consumer(stream), read).await?;
    }
    for projection in [INBOX, WEBHOOKS] {
        if let Some(read) = database.stored_checkpoint(projection, stream).await? {
            database.forget_handlings(Reader::projection(projection, stream), read).await?;
        }
    }
    Ok(())
}

async fn forget_awaited(context: &Context) -> Result<(), store::Error> {
    let age = context.config.delivery.receipt_wait;
    while context.store.deliveries().forget_awaited_receipts(age, MESSAGES).await? == u64::from(MESSAGES) {}
    Ok(())
}

async fn remove_refused_calls(context: &Context) -> Result<(), store::Error> {
    let control = context.store.control();
    for app in control.apps_with_surplus_refused_calls(KEPT).await? {
        control.remove_surplus_refused_calls(app, KEPT).await?;
    }
    while control.remove_old_refused_calls(REFUSED_CALLS_FOR, REFUSED_CALLS).await?
        == u64::from(REFUSED_CALLS)
    {}
    Ok(())
}

async fn remove_redrives(context: &Context) -> Result<(), store::Error> {
    while context.store.deliveries().remove_old_runs(REDRIVES_FOR, REDRIVES).await? == u64::from(REDRIVES) {}
    Ok(())
}

/// Does nothing while the log contains an unprocessed message that is older than the retention. The send of that message may still need its
/// attachments, and the rows that protect them may not exist yet.
async fn remove_files_and_keys(context: &Context) -> anyhow::Result<()> {
    if is_anything_ahead(context, clock::now() - context.config.streams.retention).await? {
        return Ok(());
    }
    while context.store.deliveries().review_old_attachments(FILES).await?.looked_at == u64::from(FILES) {}
    while context.store.sends().review_old_cancellation_keys(KEYS).await? == u64::from(KEYS) {}
    Ok(())
}

/// Returns true if a message published at or before `since` is not processed yet. Processing it may still need the data that is about to be
/// removed, or may write that data again.
pub(crate) async fn is_anything_ahead(context: &Context, since: Timestamp) -> anyhow::Result<bool> {
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

/// Returns 0 if the fill cannot be read. Read once per round: if each stream read it again, the janitor would stop after the first streams
/// have brought the fill below [`CROWDED`].
async fn store_fill(context: &Context) -> f64 {
    match context.log.store_use().await {
        Ok(store) => store.fill(),
        Err(error) => {
            tracing::warn!(%error, "cannot read the use of the store; removing only messages of full streams and old ones");
            0.0
        }
    }
}

async fn clean(context: &Context, stream: StreamName, store: f64) -> anyhow::Result<()> {
    let state = context.log.state(stream).await?;
    if state.messages == 0 {
        return Ok(());
    }
    let read = match read_up_to(context, stream).await? {
        Some(read) => read,
        // If no process follows the stream for webhooks, every message counts as read.
        None if stream == StreamName::Outcome => state.last_seq,
        None => return Ok(()),
    };
    let read = followed_up_to(context, stream).await?.map_or(read, |followed| followed.min(read));
    let fill = state.fill.max(store);
    let keep_from = if fill >= CROWDED {
        (state.first_seq + surplus(&state, fill)).min(read + 1)
    } else {
        first_younger(context, stream, state.first_seq, read + 1).await?
    };
    if keep_from <= state.first_seq {
        return Ok(());
    }
    let purged = context.log.purge_below(stream, keep_from).await?;
    if purged > 0 {
        tracing::info!(%stream, purged, keep_from, "old messages removed");
    }
    Ok(())
}

/// Takes the same share of messages from every stream if the store is nearly full.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count, rounded"
)]
fn surplus(state: &StreamState, fill: f64) -> u64 {
    (state.messages as f64 * (1.0 - ROOMY / fill)).ceil() as u64
}

/// Returns None if no reader has started.
pub(crate) async fn read_up_to(context: &Context, stream: StreamName) -> anyhow::Result<Option<u64>> {
    if matches!(stream, StreamName::Inbox(_)) {
        return Ok(Some(context.store.database().checkpoint(INBOX, stream).await?));
    }
    let Some(durable) = durable_of(stream) else {
        return followed_up_to(context, stream).await;
    };
    Ok(context.log.consumer_progress(stream, durable).await?.map(|progress| progress.ack_floor))
}

/// Returns None if the webhooks service has never run, or does not follow the stream.
async fn followed_up_to(context: &Context, stream: StreamName) -> anyhow::Result<Option<u64>> {
    match stream {
        StreamName::Send(_) | StreamName::Job(..) => Ok(None),
        StreamName::Inbox(_) | StreamName::Outcome => {
            Ok(context.store.database().stored_checkpoint(WEBHOOKS, stream).await?)
        }
    }
}

fn durable_of(stream: StreamName) -> Option<&'static str> {
    match stream {
        StreamName::Send(_) => Some(DURABLE),
        StreamName::Job(channel, _) => Some(channel.as_str()),
        StreamName::Inbox(_) | StreamName::Outcome => None,
    }
}

/// Returns `to` if no message is younger than the retention.
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
