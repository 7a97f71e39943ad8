//! The inbox projection: one task per partition follows the stream `INBOX_{p}`, and writes items and counters in the transaction that moves
//! the checkpoint. Small batches of several partitions share a transaction.

mod group;
mod partition;
mod progress;
mod publisher;
mod rebuild;
mod replay;
mod retention;
mod snoozes;
mod source;
mod steps;
mod verification;

pub use progress::{Phase, Step, StepCallback};
pub use rebuild::{Rebuild, RebuildReport};
pub use retention::{Removed, Retention};
pub use snoozes::Snoozes;
pub use source::{ShortenedPartition, UnreachableStart};
pub use verification::{Verification, verify};

use service_kit::{Context, plans};

/// Runs the inbox projection until the process stops. If a stream is not the one that was projected before, its task stops the process.
pub async fn run(context: Context) -> anyhow::Result<()> {
    context
        .spawn("pinned plans", plans::pin_with_statistics(context.clone(), &["inbox_item", "inbox_counter"]));
    let group = group::start(&context);
    for number in 0..context.partitions {
        let follower = partition::PartitionProjection::live(&context, &group, number);
        context.spawn("inbox partition", follower.follow(context.log.clone(), context.tasks.clone()));
    }
    context.spawn("inbox retention", retention::run(context.clone()));
    context.spawn("inbox snoozes", snoozes::run(context.clone()));
    context.tasks.stopping().await;
    Ok(())
}
