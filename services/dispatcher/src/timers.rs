//! Publishing what has come due.

use std::time::Duration;

use domain::{Envelope, Event};
use event_log::Message;
use sabotage::Mutant;
use service_kit::Context;
use store::deliveries::timer::DueTimer;

use crate::room::Room;

/// Timers of one round at most.
const ROUND: u32 = 500;
/// Longest pause between rounds; a timer set meanwhile waits no longer than this.
const PAUSE: Duration = Duration::from_millis(250);

/// Publishes due timers until the process stops. Several instances share the work.
pub(crate) async fn run(context: Context, room: Room) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        let more = match token.run_until_cancelled(round(&context, &room)).await {
            None => return Ok(()),
            Some(Ok(published)) => published > 0,
            Some(Err(error)) => {
                tracing::warn!(%error, "timers cannot be read");
                false
            }
        };
        if !more {
            token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
    }
}

/// Publishes what is due and has room, each under its timer's id, and removes what the log has confirmed.
async fn round(context: &Context, room: &Room) -> Result<usize, store::Error> {
    let mut due = context.store.due_timers_but(ROUND, &room.closed_to_timers()).await?;
    let (ids, messages): (Vec<_>, Vec<_>) = std::mem::take(&mut due.timers)
        .into_iter()
        .map(|DueTimer { id, stream, message }| {
            let old = sabotage::is(Mutant::TimerUnderOldId).then(|| first_attempt(&message)).flatten();
            let name = old.unwrap_or_else(|| id.to_string());
            (id, Message { stream, id: Some(name), payload: message.into() })
        })
        .unzip();
    let results = context.log.publish_all(messages).await;
    let mut published = Vec::with_capacity(results.len());
    for (id, result) in ids.into_iter().zip(results) {
        match result {
            Ok(_) => published.push(id),
            Err(error) => tracing::warn!(timer = %id, %error, "a timer stays due"),
        }
    }
    due.done(&published).await?;
    Ok(published.len())
}

/// The id under which the first attempt of a job was published.
fn first_attempt(message: &[u8]) -> Option<String> {
    match Envelope::decode(message).ok()?.event {
        Event::DeliveryJob(job) => Some(format!("{}.1", job.delivery_id)),
        _ => None,
    }
}
