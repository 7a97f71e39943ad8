//! Last processed sequence of each stream, stored in the database so that the restore of a backup knows where to resume reading the log.

use std::time::Duration;

use domain::StreamName;
use service_kit::{Context, clock};
use store::database::installation::LogMark;

use crate::janitor::read_up_to;

const PAUSE: Duration = Duration::from_secs(10);

/// Several dispatchers may do this at once, because a mark never decreases.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        match token.run_until_cancelled(round(&context)).await {
            None => return Ok(()),
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot record how far the log has been processed; trying again"
                );
            }
        }
        token.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
    }
}

/// Never puts a mark ahead of the database: every process commits its changes before it acknowledges a message or publishes an outcome, and
/// this function reads the positions before it writes the marks.
async fn round(context: &Context) -> anyhow::Result<()> {
    let mut marks = Vec::new();
    for stream in StreamName::all(context.partitions) {
        let at = clock::now();
        let seq = match stream {
            // The inbox projection stores its own checkpoint.
            StreamName::Inbox(_) => None,
            StreamName::Outcome => Some(context.log.state(stream).await?.last_seq),
            StreamName::Send(_) | StreamName::Job(..) => read_up_to(context, stream).await?,
        };
        marks.extend(seq.map(|seq| LogMark { stream, seq, at }));
    }
    Ok(context.store.database().mark_log(&marks).await?)
}
