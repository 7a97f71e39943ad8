//! Marks in the database of how far the log has been acted on. A backup contains them, so that a restore knows where to
//! resume reading the log.

use std::time::Duration;

use domain::StreamName;
use service_kit::{Context, clock};
use store::database::installation::LogMark;

use crate::janitor::read_up_to;

/// Interval between rounds.
const PAUSE: Duration = Duration::from_secs(10);

/// Writes marks until the process stops. Several instances may do it at once: a mark never decreases.
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

/// Writes a mark for each stream. A change is committed before its message is acknowledged or its outcome is published, and
/// positions are read before the marks are written. So a mark is never ahead of the database.
async fn round(context: &Context) -> anyhow::Result<()> {
    let mut marks = Vec::new();
    for stream in StreamName::all(context.partitions) {
        let at = clock::now();
        let seq = match stream {
            // The projection keeps its own checkpoint.
            StreamName::Inbox(_) => None,
            StreamName::Outcome => Some(context.log.state(stream).await?.last_seq),
            StreamName::Send(_) | StreamName::Job(..) => read_up_to(context, stream).await?,
        };
        marks.extend(seq.map(|seq| LogMark { stream, seq, at }));
    }
    Ok(context.store.database().mark_log(&marks).await?)
}
