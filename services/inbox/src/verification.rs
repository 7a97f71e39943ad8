//! Comparing the live inbox with a replay of the log, while everything goes on.

use anyhow::{Context as _, bail, ensure};
use event_log::EventLog;
use store::recovery::shadow::{Comparison, Purpose, Shadow};
use store::{Settings, Store};

use crate::progress::{Phase, Step, Told};
use crate::replay::Replay;
use crate::source;

/// What a comparison of the live inbox with a replay came to.
#[derive(Clone, Debug)]
pub struct Verification {
    /// What was compared, and what differs.
    pub comparison: Comparison,
    /// The last sequence of each partition up to which it holds.
    pub positions: Vec<u64>,
}

/// Replays the log, after a backup where one is named, into tables of its own, compares these with the live ones as they were at one moment, and drops them.
/// Looks closer at the first `most` users whose inboxes differ.
///
/// # Errors
/// Neither log nor backup reach, somebody else verifies, or a server failed: nothing can be told.
pub async fn verify(
    database: &Settings,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
    most: usize,
    told: Told<'_>,
) -> anyhow::Result<Verification> {
    let Some(shadow) = Shadow::take(database, Purpose::Comparison).await? else {
        bail!("another `tidings verify` is under way");
    };
    let compared = compare(&shadow, log, backup, partitions, most, told).await;
    let discarded = shadow.discard().await;
    let verification = compared?;
    discarded.context("the tables of the comparison stay until the next")?;
    Ok(verification)
}

async fn compare(
    shadow: &Shadow,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
    most: usize,
    told: Told<'_>,
) -> anyhow::Result<Verification> {
    let origin = source::choose(&shadow.store, log, backup, partitions).await?;
    shadow.create(&origin).await?;
    source::copy(shadow, &origin, backup, told).await?;
    let mut replay = Replay::resume(&shadow.store, log, partitions).await?;
    replay.close_in(shadow, told).await?;
    let mut view = shadow.view().await?;
    let positions = view.positions(partitions);
    replay.advance(&positions, told).await?;
    ensure!(replay.positions() == positions, "the checkpoints of the live inbox have gone back meanwhile");
    told(Step::Begins(Phase::Comparing, 0));
    let comparison = view.compare(shadow, most).await?;
    view.close().await?;
    Ok(Verification { comparison, positions })
}
