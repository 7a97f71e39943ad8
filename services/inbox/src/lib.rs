//! The inbox projection: follows every `INBOX` stream and keeps items and counters in PostgreSQL.
//!
//! Each partition is one task: [`partition`] reads a batch, which [`domain::inbox::fold`] folds, [`fold`] writes it, and the checkpoint moves in the same
//! transaction. Two instances may compete: the checkpoint's compare-and-set lets one through.

mod fold;
mod partition;
mod progress;
mod rebuild;
mod replay;
mod source;
mod verification;

pub use progress::{Phase, Step, Told};
pub use rebuild::{Rebuild, Rebuilt};
pub use source::{OutOfReach, Shortened};
pub use verification::{Verification, verify};

use service_kit::Context;

/// Runs the projection of every partition until the process stops.
///
/// # Errors
/// A stream is not what was projected so far.
pub async fn run(context: Context) -> anyhow::Result<()> {
    for number in 0..context.partitions {
        let partition = partition::Partition::new(&context, number);
        context.spawn("inbox partition", partition.follow(context.log.clone(), context.tasks.clone()));
    }
    context.tasks.stopping().await;
    Ok(())
}
