use std::time::Duration;

use domain::Timestamp;
use event_log::Message;
use service_kit::{Context, clock};
use store::deliveries::timer::{DueTimer, EVER};
use tokio::time::Instant;

use crate::backpressure::Backpressure;

const ROUND: u32 = 500;
/// A timer set during the pause is late by at most this time.
const PAUSE: Duration = Duration::from_millis(250);
/// Age beyond which timers are looked for only in rounds over all timers, and in the rounds that continue these. Rounds over all timers are
/// rare, because they also read the index entries of removed timers as long as an open transaction keeps them.
const RECENT: Duration = Duration::from_secs(60);
const ALL_EACH: Duration = Duration::from_secs(10);
/// The next round over all timers is at least so many times as far away as the last one took.
const SHARE: u32 = 20;
const LONGEST: Duration = Duration::from_secs(60);
/// A round that failed within this time has read little. Longer than the pool waits for a connection.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Several dispatchers share the work.
pub(crate) async fn run(context: Context, backpressure: Backpressure) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut all_at = Instant::now();
    let mut place: Option<Timestamp> = None;
    loop {
        let began = Instant::now();
        let is_full = began >= all_at;
        let behind = place.map_or(Duration::ZERO, |place| clock::now().since(place));
        let within = if is_full { EVER } else { RECENT + behind };
        let outcome = token.run_until_cancelled(round(&context, &backpressure, within)).await;
        let took = began.elapsed();
        let (is_spaced, more) = match outcome {
            None => return Ok(()),
            Some(Ok(handled)) => {
                place = handled.up_to;
                (true, handled.published > 0)
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read timers; trying again");
                // Repeated soon if it failed at once, so that timers are not late after an outage.
                (took >= AT_ONCE, false)
            }
        };
        if is_full && is_spaced {
            all_at = Instant::now() + ALL_EACH.max(took * SHARE).min(LONGEST);
        }
        if !more {
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
}

struct Handled {
    published: usize,
    /// Due time of the last timer. Another dispatcher has locked the earlier ones that are left, or their streams are closed.
    up_to: Option<Timestamp>,
}

/// Publishes with the timer's id as the message id. Removes the timers that the log confirmed.
async fn round(
    context: &Context,
    backpressure: &Backpressure,
    within: Duration,
) -> Result<Handled, store::Error> {
    let closed = backpressure.closed_to_timers();
    let mut due = context.store.deliveries().due_timers_but(ROUND, &closed, within).await?;
    let up_to = due.timers.last().map(|timer| timer.due_at);
    let (ids, messages): (Vec<_>, Vec<_>) = std::mem::take(&mut due.timers)
        .into_iter()
        .map(|DueTimer { id, stream, message, .. }| {
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
    Ok(Handled { published: published.len(), up_to })
}
