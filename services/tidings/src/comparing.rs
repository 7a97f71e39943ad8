use crate::control_plane::{ConnectedInstallation, Installation};

/// Installation whose inboxes are compared, and output options.
#[derive(Debug, clap::Args)]
pub(crate) struct Comparison {
    /// Maximum number of differing users to list; all of them are counted
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    show: u16,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    installation: Installation,
}

impl Comparison {
    pub(crate) fn most(&self) -> usize {
        usize::from(self.show)
    }

    pub(crate) async fn open(&self) -> anyhow::Result<ConnectedInstallation> {
        self.installation.open_with_log().await
    }
}
