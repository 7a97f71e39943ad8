//! Rebuild of the inbox into separate tables, which then replace the live tables.

use std::time::Duration;

use anyhow::{Context as _, bail};
use domain::StreamName;
use event_log::EventLog;
use store::Settings;
use store::recovery::shadow::{Purpose, Shadow, SwitchResult};
use tokio::time::sleep;

use crate::progress::{Phase, Step, StepCallback};
use crate::replay::Replay;
use crate::verification::{Verification, replay_and_compare};

/// An attempt fails while another session reads the live tables.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(5);

pub struct Rebuild<'a> {
    pub database: &'a Settings,
    pub log: &'a EventLog,
    pub partitions: u32,
    /// Switches even if the new tables differ from the live tables.
    pub accepts_differences: bool,
    pub most: usize,
}

#[derive(Clone, Debug)]
pub struct RebuildReport {
    /// False if the new tables were dropped; the verification shows why.
    pub is_switched: bool,
    pub verification: Verification,
}

impl Rebuild<'_> {
    /// Replays the log into new tables, and switches to them if they are equal to the live ones, or if differences are accepted. Services
    /// keep running. If the process is killed, the next rebuild drops the new tables.
    ///
    /// # Errors
    /// Returns an error if the log does not reach back far enough ([`crate::UnreachableStart`]), or if another rebuild is running. The live
    /// tables are unchanged after an error, unless the commit of the switch failed.
    pub async fn run(&self, report: StepCallback<'_>) -> anyhow::Result<RebuildReport> {
        let Some(mut shadow) = Shadow::take(self.database, Purpose::Replacement).await? else {
            bail!("another `tidings rebuild inbox` is under way");
        };
        let rebuilt = self.replace(&mut shadow, report).await;
        if !rebuilt.as_ref().is_ok_and(|rebuilt| rebuilt.is_switched)
            && let Err(error) = shadow.discard().await
        {
            tracing::warn!(%error, "cannot drop the new tables; the next rebuild will drop them");
        }
        rebuilt
    }

    async fn replace(&self, shadow: &mut Shadow, report: StepCallback<'_>) -> anyhow::Result<RebuildReport> {
        let (mut replay, verification) =
            replay_and_compare(shadow, self.log, None, self.partitions, self.most, report).await?;
        let is_wanted = self.accepts_differences || verification.comparison.differing == 0;
        if is_wanted {
            shadow.vacuum().await?;
            report(Step::Begins(Phase::Switching, 0));
            self.switch(shadow, &mut replay).await?;
        }
        let positions = replay.positions();
        Ok(RebuildReport { is_switched: is_wanted, verification: Verification { positions, ..verification } })
    }

    async fn switch(&self, shadow: &mut Shadow, replay: &mut Replay) -> anyhow::Result<()> {
        let streams: Vec<String> =
            (0..self.partitions).map(|number| StreamName::Inbox(number).to_string()).collect();
        for _ in 0..TRIES {
            replay.close_in(shadow, &ignore).await?;
            let switch = shadow.hold(&streams).await?;
            replay.reach(&switch.positions(self.partitions), &ignore).await?;
            match switch.commit().await.context(FAILED)? {
                SwitchResult::Yes => return Ok(()),
                SwitchResult::Hindered => sleep(PAUSE).await,
            }
        }
        bail!(
            "the new tables were ready, but another session, such as a running dump, kept reading the live ones; run the \
             rebuild again when it has ended"
        )
    }
}

const FAILED: &str = "the switch failed; run the rebuild again";

fn ignore(_: Step) {}
