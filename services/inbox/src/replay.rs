use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use domain::StreamName;
use event_log::{EventLog, Reader, Record};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use service_kit::follower::{Follower, ProjectionResult};
use store::Store;
use store::recovery::shadow::Shadow;

use crate::partition::PartitionProjection;
use crate::progress::{Phase, Step, StepCallback};
use crate::source;

const BATCH: u64 = 500;
const LINGER: Duration = Duration::from_millis(20);
const AT_ONCE: usize = 4;
/// Lag, in events, at which the live tables are locked for a switch or read for a comparison, and the remaining events are replayed.
const CLOSE: u64 = 1_000;
const ROUNDS: u32 = 10;
/// Number of consecutive reads without an event, each of up to a second, after which the replay fails.
const PATIENCE: u32 = 30;

pub(crate) struct Replay {
    log: EventLog,
    parts: Vec<Part>,
}

struct Part {
    follower: Follower<PartitionProjection>,
    log: EventLog,
    reader: Option<Reader>,
}

impl Replay {
    pub(crate) async fn begin(shadow: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<Replay> {
        let mut parts = Vec::new();
        for number in 0..partitions {
            let mut follower = PartitionProjection::replayed(shadow.clone(), number, partitions);
            follower.load().await?;
            parts.push(Part { follower, log: log.clone(), reader: None });
        }
        Ok(Replay { log: log.clone(), parts })
    }

    pub(crate) fn positions(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.follower.position()).collect()
    }

    fn left(&self, targets: &[u64]) -> u64 {
        self.positions().iter().zip(targets).map(|(position, target)| target.saturating_sub(*position)).sum()
    }

    /// Replays up to exactly these sequences. If that fails, the events replayed until then stay replayed. If the log has lost
    /// events meanwhile, the error names the backup that is needed.
    async fn advance(&mut self, targets: &[u64], report: StepCallback<'_>) -> anyhow::Result<()> {
        report(Step::Begins(Phase::Replaying, self.left(targets)));
        let advanced: anyhow::Result<()> = stream::iter(self.parts.iter_mut().zip(targets))
            .map(|(part, &target)| part.advance(target, report))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await;
        if advanced.as_ref().is_err_and(is_permanent) {
            source::check_reach(&self.log, &self.positions()).await?;
        }
        advanced
    }

    pub(crate) async fn close_in(&mut self, shadow: &Shadow, report: StepCallback<'_>) -> anyhow::Result<()> {
        let partitions = u32::try_from(self.parts.len())?;
        for _ in 0..ROUNDS {
            let live = shadow.live_positions(partitions).await?;
            if self.left(&live) <= CLOSE {
                break;
            }
            self.advance(&live, report).await?;
        }
        Ok(())
    }

    /// Fails if the positions are lower than the replayed ones.
    pub(crate) async fn reach(&mut self, positions: &[u64], report: StepCallback<'_>) -> anyhow::Result<()> {
        self.advance(positions, report).await?;
        ensure!(
            self.positions() == positions,
            "the checkpoints of the live inbox went backwards during the replay"
        );
        Ok(())
    }
}

fn is_permanent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<event_log::Error>().is_some_and(event_log::Error::is_permanent)
}

impl Part {
    async fn advance(&mut self, target: u64, report: StepCallback<'_>) -> anyhow::Result<()> {
        let stream = self.follower.stream();
        let mut silence = 0;
        while self.follower.position() < target {
            let position = self.follower.position();
            let reader = self.reader.get_or_insert_with(|| self.log.reader(stream, position + 1));
            let most = usize::try_from((target - position).min(BATCH))?;
            let records = match reader.next_batch(most, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => {
                    return Err(error).context("the log lacks events that remain to be replayed");
                }
                Err(error) => {
                    tracing::warn!(%stream, %error, "cannot read the log; trying again");
                    Vec::new()
                }
            };
            if records.is_empty() {
                silence += 1;
                if silence == PATIENCE {
                    bail!(
                        "{stream} delivers no events after {position}; the replay needs them up to {target}"
                    );
                }
                continue;
            }
            silence = 0;
            self.project(&records, stream).await?;
            report(Step::Done(self.follower.position() - position));
        }
        Ok(())
    }

    async fn project(&mut self, records: &[Record], stream: StreamName) -> anyhow::Result<()> {
        match self.follower.project(records).await? {
            ProjectionResult::Committed => Ok(()),
            ProjectionResult::Overtaken => bail!("another process writes the shadow of {stream}"),
        }
    }
}
