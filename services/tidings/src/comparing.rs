//! What the commands are told that compare inboxes with a replay.

use store::Store;

use crate::control_plane::{Backup, Installation, Installed};

/// How much is told, and where everything is.
#[derive(Debug, clap::Args)]
pub(crate) struct Comparing {
    /// Users that differ to tell of at most; all of them are counted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    show: u16,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    backup: Backup,
    #[command(flatten)]
    installation: Installation,
}

impl Comparing {
    /// Users that differ to tell of at most.
    pub(crate) fn most(&self) -> usize {
        usize::from(self.show)
    }

    /// The installation, and the backup where one is named.
    pub(crate) async fn open(&self) -> anyhow::Result<(Installed, Option<Store>)> {
        Ok((self.installation.open_with_log().await?, self.backup.open().await?))
    }
}
