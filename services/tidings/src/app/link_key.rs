//! `tidings app link-key`: the key that seals the links of an app's messages.

use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use credentials::link;
use serde_json::json;

use crate::control_plane::{Installation, actor};

const LONGEST_GRACE: Duration = link::UNSUBSCRIBE_FOR;

/// Rotate the key that seals the unsubscribe and click links in an app's messages.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings app link-key rotate shop")]
pub(crate) enum Command {
    Rotate(RotateArguments),
}

/// Give an app another key for its links. Links that were sent before are good for a while, or end at once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Readers must be able to unsubscribe by an email for 30 days at least (CAN-SPAM): end the links
that were sent at once only if the key, or the links themselves, are in the wrong hands.

Examples:
  tidings app link-key rotate shop
  tidings app link-key rotate shop --grace 0s"
)]
pub(crate) struct RotateArguments {
    /// Name or id of the app
    app: String,
    /// How long links under the keys before stay good, at most 400 days; 0s ends them within five seconds
    #[arg(long, value_name = "TIME", default_value = "60d", value_parser = parse_grace)]
    grace: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time > LONGEST_GRACE {
        return Err("at most 400 days, which is how long unsubscribe links are good in any case".to_owned());
    }
    Ok(time)
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    let Command::Rotate(arguments) = command;
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let (master_key, grace) = (control_plane.master_key().await?, arguments.grace);
    let version = link::rotate(&control_plane.store, &master_key, app.id, grace, &actor()).await?;
    let version = version.context("the app has been deleted meanwhile")?;
    let grace = humantime::format_duration(grace).to_string();
    Ok(if arguments.json {
        format!(
            "{}\n",
            json!({"id": app.id.to_string(), "name": app.name, "version": version, "grace": grace})
        )
    } else {
        let earlier = if arguments.grace.is_zero() {
            "Links that were sent before end within five seconds.".to_owned()
        } else {
            format!("Links that were sent before are good for {grace} more at most.")
        };
        format!("App {} seals its links with key version {version} from now on. {earlier}\n", app.name)
    })
}
