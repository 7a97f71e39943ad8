//! The inbox projection: follows every stream `INBOX_{p}`, and stores inbox items and counters in PostgreSQL.
//!
//! Each partition has one task. [`service_kit::follower`] reads a batch of events, [`domain::inbox::fold`] combines the events,
//! and [`partition`] writes the result in the transaction that moves the checkpoint. Two more tasks write events: [`retention`]
//! removes old items, and [`snoozes`] returns snoozed items.

mod partition;
mod progress;
mod publisher;
mod rebuild;
mod replay;
mod retention;
mod snoozes;
mod source;
mod verification;

pub use progress::{Phase, Step, StepCallback};
pub use rebuild::{Rebuild, RebuildReport};
pub use retention::{Removed, Retention};
pub use snoozes::Snoozes;
pub use source::{ShortenedPartition, UnreachableStart};
pub use verification::{Verification, verify};

use service_kit::Context;

/// Runs the projection of every partition, the removal of old items, and the return of snoozed items, until the process stops.
///
/// # Errors
/// This function returns no error. If a stream is not the one that was projected before, the task of the partition stops the
/// process.
pub async fn run(context: Context) -> anyhow::Result<()> {
    for number in 0..context.partitions {
        let follower = partition::PartitionProjection::live(&context, number);
        context.spawn("inbox partition", follower.follow(context.log.clone(), context.tasks.clone()));
    }
    context.spawn("inbox retention", retention::run(context.clone()));
    context.spawn("inbox snoozes", snoozes::run(context.clone()));
    context.tasks.stopping().await;
    Ok(())
}
