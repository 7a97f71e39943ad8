//! Making the inbox anew beside the live one, and putting it in its place.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use domain::StreamName;
use event_log::EventLog;
use store::recovery::shadow::{Comparison, Origin, Purpose, Shadow, Switch, Switched};
use store::{Error, Settings, Store};
use tokio::time::sleep;

use crate::progress::{Phase, Step, Told};
use crate::replay::Replay;
use crate::source;

/// How often the switch is tried where somebody reads the live tables for long, and the pause between.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(5);

/// How the inbox is to be rebuilt.
pub struct Rebuild<'a> {
    /// The live database.
    pub database: &'a Settings,
    /// The log.
    pub log: &'a EventLog,
    /// Inbox partitions.
    pub partitions: u32,
    /// A database restored from a backup, whose inbox the replay starts from.
    pub backup: Option<&'a Store>,
    /// Whether what an earlier rebuild left is thrown away.
    pub is_afresh: bool,
    /// Whether the new tables take the place of the live ones even where they differ.
    pub accepts_differences: bool,
    /// Users whose differences are looked at.
    pub most: usize,
}

/// What came of a rebuild.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Whether the new tables are live. Otherwise they wait: the comparison says why.
    pub is_switched: bool,
    /// Whether it went on with what an earlier one left.
    pub is_resumed: bool,
    /// What it started from.
    pub origin: Origin,
    /// The new tables beside the live ones, at the same positions.
    pub comparison: Comparison,
    /// The last sequence of each partition in the new tables.
    pub positions: Vec<u64>,
}

impl Rebuild<'_> {
    /// Replays the log into new tables, compares these with the live ones, and switches where both are equal. Services go
    /// on meanwhile; the projection stands still for the switch alone. Killed at any point, it is resumed by the next.
    ///
    /// # Errors
    /// Neither log nor backup reach ([`crate::OutOfReach`]), somebody else rebuilds, or a server failed. The live tables
    /// are as before, unless it was the end of the switch that failed.
    pub async fn run(&self, told: Told<'_>) -> anyhow::Result<Rebuilt> {
        let Some(mut shadow) = Shadow::take(self.database, Purpose::Replacement).await? else {
            bail!("another `tidings rebuild inbox` is under way");
        };
        let (origin, is_resumed) = self.begin(&shadow).await?;
        if !origin.is_copied {
            // What is being copied is of no use where the log no longer goes on from its end.
            source::check_reach(self.log, &origin.start).await?;
        }
        source::copy(&shadow, &origin, self.backup, told).await?;
        let mut replay = Replay::resume(&shadow.store, self.log, self.partitions).await?;
        source::check_reach(self.log, &replay.positions()).await?;
        replay.close_in(&shadow, told).await?;
        shadow.vacuum().await?;
        let comparison = self.compare(&shadow, &mut replay, told).await?;
        let mut rebuilt =
            Rebuilt { is_switched: false, is_resumed, origin, comparison, positions: replay.positions() };
        if self.may_switch(&rebuilt.comparison) {
            self.switch(&mut shadow, &mut replay, &mut rebuilt, told).await?;
        }
        Ok(rebuilt)
    }

    /// Goes on with what is there, where it is of this release and of the same schema; else makes new tables.
    async fn begin(&self, shadow: &Shadow) -> anyhow::Result<(Origin, bool)> {
        if !self.is_afresh
            && let Some(found) = shadow.origin().await?
            && self.fits(shadow, &found).await?
        {
            return Ok((found, true));
        }
        let origin = source::choose(&shadow.store, self.log, self.backup, self.partitions).await?;
        match shadow.create(&origin).await {
            Err(error @ Error::Differs(_)) => Err(error).context(NOT_COPIED)?,
            created => created?,
        }
        Ok((origin, false))
    }

    /// Whether one that was begun is what this one would begin.
    async fn fits(&self, shadow: &Shadow, found: &Origin) -> anyhow::Result<bool> {
        let schema = shadow.store.schema_version().await?.unwrap_or_default();
        if found.release != env!("CARGO_PKG_VERSION")
            || found.schema != schema
            || !shadow.is_like_live().await?
        {
            return Ok(false);
        }
        let Some(backup) = self.backup else { return Ok(true) };
        let start = source::positions_of(backup, self.log, schema, self.partitions).await?;
        Ok(found.is_from_backup && found.start == start)
    }

    /// Compares all of it with the live tables as they are at one moment.
    async fn compare(
        &self,
        shadow: &Shadow,
        replay: &mut Replay,
        told: Told<'_>,
    ) -> anyhow::Result<Comparison> {
        let mut view = shadow.view().await?;
        reach(replay, &view.positions(self.partitions), told).await?;
        // What is written from here on is compared again by the switch.
        replay.remember();
        told(Step::Begins(Phase::Comparing, 0));
        let comparison = view.compare(shadow, self.most).await?;
        view.close().await?;
        Ok(comparison)
    }

    /// Compares what was written since it was compared, so that the switch has little left.
    async fn compare_late(&self, shadow: &Shadow, replay: &mut Replay) -> anyhow::Result<Comparison> {
        replay.close_in(shadow, &quietly).await?;
        let mut view = shadow.view().await?;
        reach(replay, &view.positions(self.partitions), &quietly).await?;
        let comparison = view.compare_some(shadow, &replay.take_written(), self.most).await?;
        view.close().await?;
        Ok(comparison)
    }

    fn may_switch(&self, comparison: &Comparison) -> bool {
        self.accepts_differences || comparison.differing == 0
    }

    async fn switch(
        &self,
        shadow: &mut Shadow,
        replay: &mut Replay,
        rebuilt: &mut Rebuilt,
        told: Told<'_>,
    ) -> anyhow::Result<()> {
        let streams: Vec<String> =
            (0..self.partitions).map(|number| StreamName::Inbox(number).to_string()).collect();
        told(Step::Begins(Phase::Switching, 0));
        for _ in 0..TRIES {
            let late = self.compare_late(shadow, replay).await?;
            if !self.may_switch(&late) {
                rebuilt.comparison = late;
                return Ok(());
            }
            let mut switch = shadow.hold(&streams).await?;
            rebuilt.positions = switch.positions(self.partitions);
            reach(replay, &rebuilt.positions, &quietly).await?;
            let latest = switch.compare(&replay.take_written(), self.most).await?;
            if !self.may_switch(&latest) {
                rebuilt.comparison = latest;
                return Ok(());
            }
            match commit(switch).await? {
                Switched::Yes => {
                    rebuilt.is_switched = true;
                    return Ok(());
                }
                Switched::Hindered => sleep(PAUSE).await,
            }
        }
        bail!(
            "the tables are ready, but somebody reads the live ones all the time, such as a dump that is under way; run it \
             again once that has ended"
        )
    }
}

/// For what new tables are not given.
const NOT_COPIED: &str =
    "the live tables have what no new ones are given: drop it, and make it again once the inbox is rebuilt";
/// For what somebody gave the live tables while they were rebuilt, or took from them.
const CHANGED: &str = "the live tables were changed meanwhile, and nothing was switched: run it again";
/// For an error of the switch's own transaction.
const UNKNOWN: &str = "the switch failed; if it is not known whether it was committed, run it again";

async fn commit(switch: Switch<'_>) -> anyhow::Result<Switched> {
    match switch.commit().await {
        Err(error @ Error::Differs(_)) => Err(error).context(CHANGED),
        committed => committed.context(UNKNOWN),
    }
}

/// What comes in while the rest is done is not worth a word.
fn quietly(_: Step) {}

/// Replays up to the positions of live tables that somebody holds.
async fn reach(replay: &mut Replay, positions: &[u64], told: Told<'_>) -> anyhow::Result<()> {
    replay.advance(positions, told).await?;
    ensure!(replay.positions() == positions, "the checkpoints of the live inbox have gone back meanwhile");
    Ok(())
}
