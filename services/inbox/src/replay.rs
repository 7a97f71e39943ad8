//! Replaying the log into a shadow of the inbox: the same projection, into tables beside the live ones.

use std::time::Duration;

use anyhow::{Context as _, bail};
use domain::{AppId, StreamName, UserNumber};
use event_log::{EventLog, Reader, Record};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use store::Store;
use store::recovery::shadow::Shadow;

use crate::partition::{Partition, Projected};
use crate::progress::{Phase, Step, Told};
use crate::source;

/// Events that are read at once, and how long to gather them.
const BATCH: u64 = 500;
const LINGER: Duration = Duration::from_millis(20);
/// Partitions that are replayed at the same time.
const AT_ONCE: usize = 4;
/// Events that whoever holds the live tables may wait for.
const CLOSE: u64 = 1_000;
/// Rounds after which the replay is as close as it gets.
const ROUNDS: u32 = 10;

/// Answers of the log without an event, of which each takes a second or fails, before it is given up.
const PATIENCE: u32 = 30;

/// Every partition, on its way through the log.
pub(crate) struct Replay {
    log: EventLog,
    parts: Vec<Part>,
    /// Whether it keeps whose inboxes it writes.
    remembers: bool,
}

struct Part {
    partition: Partition,
    log: EventLog,
    reader: Option<Reader>,
}

impl Replay {
    /// Goes on from the checkpoints of the shadow, and learns who was erased.
    pub(crate) async fn resume(shadow: &Store, log: &EventLog, partitions: u32) -> anyhow::Result<Replay> {
        let mut parts = Vec::new();
        for number in 0..partitions {
            let mut partition = Partition::replayed(shadow.clone(), number, partitions);
            partition.load().await?;
            parts.push(Part { partition, log: log.clone(), reader: None });
        }
        Ok(Replay { log: log.clone(), parts, remembers: false })
    }

    /// The last sequence of each partition that is replayed.
    pub(crate) fn positions(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.partition.position()).collect()
    }

    /// Events that are left to be replayed up to `targets`.
    pub(crate) fn left(&self, targets: &[u64]) -> u64 {
        self.positions().iter().zip(targets).map(|(position, target)| target.saturating_sub(*position)).sum()
    }

    /// Replays up to exactly these sequences. What was replayed stays so where it fails; where that is because the log was
    /// shortened meanwhile, it is told which backup would do.
    pub(crate) async fn advance(&mut self, targets: &[u64], told: Told<'_>) -> anyhow::Result<()> {
        told(Step::Begins(Phase::Replaying, self.left(targets)));
        let remembers = self.remembers;
        let advanced: anyhow::Result<()> = stream::iter(self.parts.iter_mut().zip(targets))
            .map(|(part, &target)| part.advance(target, remembers, told))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await;
        if advanced.as_ref().is_err_and(is_permanent) {
            source::check_reach(&self.log, &self.positions()).await?;
        }
        advanced
    }

    /// Replays up to shortly behind the live inbox, which goes on.
    pub(crate) async fn close_in(&mut self, shadow: &Shadow, told: Told<'_>) -> anyhow::Result<()> {
        let partitions = u32::try_from(self.parts.len())?;
        for _ in 0..ROUNDS {
            let live = shadow.live_positions(partitions).await?;
            if self.left(&live) <= CLOSE {
                break;
            }
            self.advance(&live, told).await?;
        }
        Ok(())
    }

    /// Keeps whose inboxes it writes from now on.
    pub(crate) fn remember(&mut self) {
        self.remembers = true;
    }

    /// Whose inboxes were written since it was asked last.
    pub(crate) fn take_written(&mut self) -> Vec<(AppId, UserNumber)> {
        self.parts.iter_mut().flat_map(|part| part.partition.take_written()).collect()
    }
}

/// Whether the log is not what it was.
fn is_permanent(error: &anyhow::Error) -> bool {
    error.downcast_ref::<event_log::Error>().is_some_and(event_log::Error::is_permanent)
}

impl Part {
    async fn advance(&mut self, target: u64, remembers: bool, told: Told<'_>) -> anyhow::Result<()> {
        let stream = self.partition.stream();
        let mut silence = 0;
        while self.partition.position() < target {
            let position = self.partition.position();
            let reader = self.reader.get_or_insert_with(|| self.log.reader(stream, position + 1));
            let most = usize::try_from((target - position).min(BATCH))?;
            let records = match reader.next_batch(most, LINGER).await {
                Ok(records) => records,
                Err(error) if error.is_permanent() => {
                    return Err(error).context("the log does not have what is left to be replayed");
                }
                Err(error) => {
                    tracing::warn!(%stream, %error, "the replay waits for the log");
                    Vec::new()
                }
            };
            if records.is_empty() {
                silence += 1;
                if silence == PATIENCE {
                    bail!("{stream} brings nothing after {position}; it was to be replayed up to {target}");
                }
                continue;
            }
            silence = 0;
            self.project(&records, stream).await?;
            if !remembers {
                self.partition.take_written();
            }
            told(Step::Done(self.partition.position() - position));
        }
        Ok(())
    }

    async fn project(&mut self, records: &[Record], stream: StreamName) -> anyhow::Result<()> {
        match self.partition.project(records).await? {
            Projected::Yes => Ok(()),
            Projected::Overtaken => bail!("somebody else writes the shadow of {stream}"),
        }
    }
}
