//! The inbox projection: follows every `INBOX` stream and keeps items and counters in PostgreSQL.
//!
//! Each partition is one task: [`service_kit::follower`] reads a batch, [`domain::inbox::fold`] folds it, and [`partition`]
//! writes it in the transaction that moves the checkpoint.

mod partition;
mod progress;
mod rebuild;
mod replay;
mod source;
mod verification;

pub use progress::{Phase, Step, StepCallback};
pub use rebuild::{Rebuild, RebuildReport};
pub use source::{ShortenedPartition, UnreachableStart};
pub use verification::{Verification, verify};

use service_kit::Context;

/// Runs the projection of every partition until the process stops.
///
/// # Errors
/// A stream is not the one that was projected so far.
pub async fn run(context: Context) -> anyhow::Result<()> {
    for number in 0..context.partitions {
        let follower = partition::Partition::live(&context, number);
        context.spawn("inbox partition", follower.follow(context.log.clone(), context.tasks.clone()));
    }
    context.tasks.stopping().await;
    Ok(())
}
