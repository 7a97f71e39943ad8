//! Rebuilding the inbox in separate tables, and switching them with the live ones.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use domain::StreamName;
use event_log::EventLog;
use store::recovery::shadow::{Comparison, Origin, Purpose, Shadow, Switch, Switched};
use store::{Error, Settings, Store};
use tokio::time::sleep;

use crate::progress::{OnStep, Phase, Step};
use crate::replay::Replay;
use crate::source;

/// Maximum number of tries to switch while another session reads the live tables, and the pause between tries.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(5);

/// Parameters of a rebuild.
pub struct Rebuild<'a> {
    pub database: &'a Settings,
    pub log: &'a EventLog,
    /// Number of inbox partitions.
    pub partitions: u32,
    /// Database restored from a backup; the replay starts from its inbox.
    pub backup: Option<&'a Store>,
    /// True to discard the tables of an interrupted rebuild.
    pub is_afresh: bool,
    /// True to switch even if the new tables differ from the live ones.
    pub accepts_differences: bool,
    /// Maximum number of users whose differences are listed.
    pub most: usize,
}

/// Result of a rebuild.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// True if the new tables are live. Otherwise they are kept, and the comparison shows why.
    pub is_switched: bool,
    /// True if an interrupted rebuild was resumed.
    pub is_resumed: bool,
    /// Starting point of the replay.
    pub origin: Origin,
    /// Comparison of the new tables with the live ones at the same positions.
    pub comparison: Comparison,
    /// Last sequence of each partition in the new tables.
    pub positions: Vec<u64>,
}

impl Rebuild<'_> {
    /// Replays the log into new tables, compares these with the live ones, and switches if they are equal. Services keep
    /// running; the projection pauses only for the switch. If the process is killed at any point, the next run resumes.
    ///
    /// # Errors
    /// Neither log nor backup reach far enough ([`crate::OutOfReach`]), another rebuild is running, or a server failed.
    /// The live tables are unchanged, unless the commit of the switch failed.
    pub async fn run(&self, report: OnStep<'_>) -> anyhow::Result<Rebuilt> {
        let Some(mut shadow) = Shadow::take(self.database, Purpose::Replacement).await? else {
            bail!("another `tidings rebuild inbox` is under way");
        };
        let (origin, is_resumed) = self.begin(&shadow).await?;
        if !origin.is_copied {
            // Copying is useless if the log no longer continues from the end of the backup.
            source::check_reach(self.log, &origin.start).await?;
        }
        source::copy(&shadow, &origin, self.backup, report).await?;
        let mut replay = Replay::resume(&shadow.store, self.log, self.partitions).await?;
        source::check_reach(self.log, &replay.positions()).await?;
        replay.close_in(&shadow, report).await?;
        shadow.vacuum().await?;
        let comparison = self.compare(&shadow, &mut replay, report).await?;
        let mut rebuilt =
            Rebuilt { is_switched: false, is_resumed, origin, comparison, positions: replay.positions() };
        if self.may_switch(&rebuilt.comparison) {
            self.switch(&mut shadow, &mut replay, &mut rebuilt, report).await?;
        }
        Ok(rebuilt)
    }

    /// Resumes the tables of an interrupted rebuild if they fit; else creates new ones. Returns true if it resumes.
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

    /// Returns true if the interrupted rebuild has the release, schema and starting point that a new one would have.
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

    /// Compares all rows with a snapshot of the live tables.
    async fn compare(
        &self,
        shadow: &Shadow,
        replay: &mut Replay,
        report: OnStep<'_>,
    ) -> anyhow::Result<Comparison> {
        let mut view = shadow.view().await?;
        reach(replay, &view.positions(self.partitions), report).await?;
        // The switch compares again the inboxes that are written from here on.
        replay.remember();
        report(Step::Begins(Phase::Comparing, 0));
        let comparison = view.compare(shadow, self.most).await?;
        view.close().await?;
        Ok(comparison)
    }

    /// Compares the inboxes written since the last comparison, so that few remain for the switch.
    async fn compare_late(&self, shadow: &Shadow, replay: &mut Replay) -> anyhow::Result<Comparison> {
        replay.close_in(shadow, &ignore).await?;
        let mut view = shadow.view().await?;
        reach(replay, &view.positions(self.partitions), &ignore).await?;
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
        report: OnStep<'_>,
    ) -> anyhow::Result<()> {
        let streams: Vec<String> =
            (0..self.partitions).map(|number| StreamName::Inbox(number).to_string()).collect();
        report(Step::Begins(Phase::Switching, 0));
        for _ in 0..TRIES {
            let late = self.compare_late(shadow, replay).await?;
            if !self.may_switch(&late) {
                rebuilt.comparison = late;
                return Ok(());
            }
            let mut switch = shadow.hold(&streams).await?;
            rebuilt.positions = switch.positions(self.partitions);
            reach(replay, &rebuilt.positions, &ignore).await?;
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
            "the new tables are ready, but another session, such as a running dump, keeps reading the live ones; run the \
             rebuild again when it has ended"
        )
    }
}

/// Error context: the live tables have objects that are not copied to the new tables.
const NOT_COPIED: &str =
    "the live tables have objects that new tables do not get: drop them, and create them again afterwards";
/// Error context: the definition of the live tables changed during the rebuild.
const CHANGED: &str =
    "the live tables were altered during the rebuild, and nothing was switched: run it again";
/// Error context: the transaction of the switch failed.
const UNKNOWN: &str = "the switch failed; if it may have been committed nevertheless, run the rebuild again";

async fn commit(switch: Switch<'_>) -> anyhow::Result<Switched> {
    match switch.commit().await {
        Err(error @ Error::Differs(_)) => Err(error).context(CHANGED),
        committed => committed.context(UNKNOWN),
    }
}

/// Ignores progress of the short replays around the switch.
fn ignore(_: Step) {}

/// Replays up to the positions of a snapshot or of the locked live tables. Fails if the live positions are lower than the
/// replayed ones.
async fn reach(replay: &mut Replay, positions: &[u64], report: OnStep<'_>) -> anyhow::Result<()> {
    replay.advance(positions, report).await?;
    ensure!(
        replay.positions() == positions,
        "the checkpoints of the live inbox went backwards during the replay"
    );
    Ok(())
}
