//! Publishing what has come due.

use std::time::Duration;

use event_log::Message;
use service_kit::Context;

/// Timers of one round at most.
const ROUND: u32 = 500;
/// Longest pause between rounds; a timer set meanwhile waits no longer than this.
const PAUSE: Duration = Duration::from_millis(250);

/// Publishes due timers until the process stops. Several instances share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        let more = match token.run_until_cancelled(round(&context)).await {
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

/// Publishes what is due, each under its timer's id, and removes what the log has confirmed.
async fn round(context: &Context) -> Result<usize, store::Error> {
    let due = context.store.due_timers(ROUND).await?;
    if due.timers.is_empty() {
        return Ok(0);
    }
    let messages = due
        .timers
        .iter()
        .map(|timer| Message {
            stream: timer.stream,
            id: Some(timer.id.to_string()),
            payload: timer.message.clone().into(),
        })
        .collect();
    let results = context.log.publish_all(messages).await;
    let mut published = Vec::with_capacity(results.len());
    for (timer, result) in due.timers.iter().zip(results) {
        match result {
            Ok(_) => published.push(timer.id),
            Err(error) => tracing::warn!(timer = %timer.id, %error, "a timer stays due"),
        }
    }
    due.done(&published).await?;
    Ok(published.len())
}
