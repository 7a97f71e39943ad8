//! Measurement of the fill of the streams and of the lag of their readers.

use std::time::Duration;

use domain::{Channel, Reason, StreamName, Timestamp};
use metrics::gauge;
use service_kit::metrics::{
    DELIVERIES_WAITING, LOG_STORE_FILL, LOG_STORE_LIMIT, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS,
    STREAM_BYTES, STREAM_FILL, STREAM_MESSAGES, STREAM_OLDEST_AGE, STREAM_PENDING,
};
use service_kit::presence::Backlog;
use service_kit::{Context, clock};
use tokio::time::Instant;

use crate::janitor::read_up_to;
use crate::old_snapshots::OldSnapshots;

const PAUSE: Duration = Duration::from_secs(5);
/// The next round is at least so many times as far away as the last one took. Counts take long while a transaction is open, because
/// PostgreSQL keeps the rows that were removed meanwhile.
const SHARE: u32 = 20;
const LONGEST: Duration = Duration::from_secs(30);
const MOST_WAITING: i64 = 10_000;

pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let streams = StreamName::all(context.partitions);
    let mut snapshots = OldSnapshots::default();
    loop {
        let began = Instant::now();
        let store = match token.run_until_cancelled(measure_store(&context)).await {
            Some(Ok(fill)) => fill,
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot measure the store; its metrics keep their last values");
                0.0
            }
            None => return Ok(()),
        };
        for &stream in &streams {
            if let Some(Err(error)) = token.run_until_cancelled(measure(&context, stream, store)).await {
                tracing::debug!(%stream, error = format!("{error:#}"), "cannot measure a stream; its metrics keep their last values");
            }
        }
        if let Some(Err(error)) = token.run_until_cancelled(measure_waiting(&context)).await {
            tracing::debug!(%error, "cannot count the waiting deliveries; their metrics keep their last values");
        }
        if let Some(Err(error)) = token.run_until_cancelled(measure_timers(&context)).await {
            tracing::debug!(%error, "cannot count the overdue timers; the report keeps its last value");
        }
        if let Some(Err(error)) = token.run_until_cancelled(snapshots.measure(&context)).await {
            tracing::debug!(%error, "cannot list the open transactions; their metric keeps its last values");
        }
        if token
            .run_until_cancelled(tokio::time::sleep(PAUSE.max(began.elapsed() * SHARE).min(LONGEST)))
            .await
            .is_none()
        {
            return Ok(());
        }
    }
}

async fn measure_store(context: &Context) -> Result<f64, event_log::Error> {
    let store = context.log.store_use().await?;
    gauge!(LOG_STORE_FILL).set(store.fill());
    gauge!(LOG_STORE_LIMIT).set(store.limit.unwrap_or(0) as f64);
    Ok(store.fill())
}

async fn measure_waiting(context: &Context) -> Result<(), store::Error> {
    let groups = context.store.deliveries().list_waiting(None, MOST_WAITING).await?;
    for channel in Channel::EXTERNAL {
        for reason in Reason::WAITING {
            let of_cause = groups.iter().filter(|group| (group.channel, group.reason) == (channel, reason));
            let deliveries: i64 = of_cause.map(|group| group.deliveries).sum();
            gauge!(DELIVERIES_WAITING, "channel" => channel.as_str(), "reason" => reason.as_str())
                .set(deliveries as f64);
        }
    }
    Ok(())
}

async fn measure_timers(context: &Context) -> Result<(), store::Error> {
    let (waiting, oldest) = context.store.deliveries().overdue_timers(MOST_WAITING).await?;
    let oldest_seconds = oldest.map_or(0.0, |due_at| clock::now().since(due_at).as_secs_f64());
    context.presence.note(Backlog { name: "timers".to_owned(), waiting, oldest_seconds, fill: None });
    Ok(())
}

async fn measure(context: &Context, stream: StreamName, store: f64) -> anyhow::Result<()> {
    let state = context.log.state(stream).await?;
    let name = stream.to_string();
    gauge!(STREAM_MESSAGES, "stream" => name.clone()).set(state.messages as f64);
    gauge!(STREAM_BYTES, "stream" => name.clone()).set(state.bytes as f64);
    gauge!(STREAM_FILL, "stream" => name.clone()).set(state.fill.max(store));
    let Some(read) = read_up_to(context, stream).await? else {
        return Ok(());
    };
    let behind = state.last_seq.saturating_sub(read);
    let next = (read + 1).max(state.first_seq);
    let waiting_since = if behind > 0 { context.log.published_at(stream, next).await? } else { None };
    let age = waiting_since.map_or(Duration::ZERO, |at| clock::now().since(Timestamp::from_millis(at)));
    let (events, seconds) = match stream {
        StreamName::Inbox(_) => (PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS),
        _ => (STREAM_PENDING, STREAM_OLDEST_AGE),
    };
    gauge!(events, "stream" => name.clone()).set(behind as f64);
    gauge!(seconds, "stream" => name.clone()).set(age.as_secs_f64());
    context.presence.note(Backlog {
        name,
        waiting: behind,
        oldest_seconds: age.as_secs_f64(),
        fill: Some(state.fill.max(store)),
    });
    Ok(())
}
