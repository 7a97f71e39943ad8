//! Measurement of the fill of the streams and of the lag of their readers.

use std::time::Duration;

use domain::{StreamName, Timestamp};
use metrics::gauge;
use service_kit::metrics::{
    PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS, STREAM_FILL, STREAM_MESSAGES, STREAM_OLDEST_AGE,
    STREAM_PENDING,
};
use service_kit::{Context, clock};

use crate::janitor::read_up_to;

/// Interval between rounds.
const PAUSE: Duration = Duration::from_secs(5);

/// Measures every stream until the process stops.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let streams = StreamName::all(context.partitions);
    loop {
        for &stream in &streams {
            if let Some(Err(error)) = token.run_until_cancelled(measure(&context, stream)).await {
                tracing::debug!(%stream, error = format!("{error:#}"), "cannot measure a stream; its metrics keep their last values");
            }
        }
        if token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return Ok(());
        }
    }
}

async fn measure(context: &Context, stream: StreamName) -> anyhow::Result<()> {
    let state = context.log.state(stream).await?;
    let name = stream.to_string();
    gauge!(STREAM_MESSAGES, "stream" => name.clone()).set(state.messages as f64);
    gauge!(STREAM_FILL, "stream" => name.clone()).set(state.fill);
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
    gauge!(seconds, "stream" => name).set(age.as_secs_f64());
    Ok(())
}
