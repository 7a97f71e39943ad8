use std::time::Duration;

use event_log::Message;
use service_kit::Context;
use store::deliveries::timer::{DueTimer, EVER};
use tokio::time::Instant;

use crate::backpressure::Backpressure;

const ROUND: u32 = 500;
/// A timer set during the pause is late by at most this time.
const PAUSE: Duration = Duration::from_millis(250);
/// Time after which a timer that became due is looked for in rounds over all timers only. These are rare, because they read the index entries
/// of removed timers too, as long as an open transaction keeps them.
const RECENT: Duration = Duration::from_secs(60);
const ALL_EACH: Duration = Duration::from_secs(10);
/// The next round over all timers is at least so many times as far away as the last one took.
const SHARE: u32 = 20;
const LONGEST: Duration = Duration::from_secs(60);

/// Several dispatchers share the work.
pub(crate) async fn run(context: Context, backpressure: Backpressure) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut all_at = Instant::now();
    loop {
        let began = Instant::now();
        let within = if began >= all_at { EVER } else { RECENT };
        let more = match token.run_until_cancelled(round(&context, &backpressure, within)).await {
            None => return Ok(()),
            Some(Ok(published)) => {
                if published == 0 && within == EVER {
                    all_at = Instant::now() + ALL_EACH.max(began.elapsed() * SHARE).min(LONGEST);
                }
                published > 0
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read timers; trying again");
                false
            }
        };
        if !more {
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
}

/// Publishes with the timer's id as the message id. Removes the timers that the log confirmed, and returns their number.
async fn round(
    context: &Context,
    backpressure: &Backpressure,
    within: Duration,
) -> Result<usize, store::Error> {
    let closed = backpressure.closed_to_timers();
    let mut due = context.store.deliveries().due_timers_but(ROUND, &closed, within).await?;
    let (ids, messages): (Vec<_>, Vec<_>) = std::mem::take(&mut due.timers)
        .into_iter()
        .map(|DueTimer { id, stream, message }| {
            (id, Message { stream, id: Some(id.to_string()), payload: message.into() })
        })
        .unzip();
    let results = context.log.publish_all(messages).await;
    let mut published = Vec::with_capacity(results.len());
    for (id, result) in ids.into_iter().zip(results) {
        match result {
            Ok(_) => published.push(id),
            Err(error) => tracing::warn!(timer = %id, %error, "cannot publish a timer; trying again"),
        }
    }
    due.done(&published).await?;
    Ok(published.len())
}
