use anyhow::{Context as _, bail};
use event_log::EventLog;
use store::recovery::shadow::{Comparison, Purpose, Shadow};
use store::{Settings, Store};

use crate::progress::{Phase, Step, StepCallback};
use crate::replay::Replay;
use crate::source;

#[derive(Clone, Debug)]
pub struct Verification {
    pub comparison: Comparison,
    /// Last sequence that the comparison covers, by partition.
    pub positions: Vec<u64>,
}

/// Replays the log into separate tables, which start empty or with the inbox of a backup, and compares them with a snapshot of the live
/// tables. Lists the differences of up to `most` users. Fails if neither the log nor the backup reaches back far enough, or if another
/// verification is running.
pub async fn verify(
    database: &Settings,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
    most: usize,
    report: StepCallback<'_>,
) -> anyhow::Result<Verification> {
    let Some(shadow) = Shadow::take(database, Purpose::Comparison).await? else {
        bail!("another `tidings verify` is running");
    };
    let compared = replay_and_compare(&shadow, log, backup, partitions, most, report).await;
    let discarded = shadow.discard().await;
    let (_, verification) = compared?;
    discarded.context("cannot drop the tables of the comparison; the next comparison drops them")?;
    Ok(verification)
}

pub(crate) async fn replay_and_compare(
    shadow: &Shadow,
    log: &EventLog,
    backup: Option<&Store>,
    partitions: u32,
    most: usize,
    report: StepCallback<'_>,
) -> anyhow::Result<(Replay, Verification)> {
    let start = source::choose(&shadow.store, log, backup, partitions).await?;
    shadow.create().await?;
    if let Some(backup) = backup {
        source::copy(shadow, backup, &start, report).await?;
    }
    let mut replay = Replay::begin(&shadow.store, log, partitions).await?;
    replay.close_in(shadow, report).await?;
    let mut view = shadow.view().await?;
    let positions = view.positions(partitions);
    replay.reach(&positions, report).await?;
    report(Step::Begins(Phase::Comparing, 0));
    let comparison = view.compare(shadow, most).await?;
    view.close().await?;
    Ok((replay, Verification { comparison, positions }))
}
