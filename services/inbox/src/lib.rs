//! The inbox projection: follows every `INBOX` stream and keeps items and counters in PostgreSQL.
//!
//! Each partition is one task: [`partition`] reads a batch, [`fold`] applies it, and the checkpoint moves in the same
//! transaction. Two instances may compete: the checkpoint's compare-and-set lets one through.

mod fold;
mod partition;

use service_kit::Context;

/// Runs the projection of every partition until the process stops.
///
/// # Errors
/// A stream is not what was projected so far, or holds an event of a newer release.
pub async fn run(context: Context) -> anyhow::Result<()> {
    for number in 0..context.partitions {
        let partition = partition::Partition::new(&context, number);
        context.spawn("inbox partition", partition.follow());
    }
    context.tasks.stopping().await;
    Ok(())
}
