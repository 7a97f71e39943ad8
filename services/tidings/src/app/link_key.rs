use std::time::Duration;

use clap::Subcommand;
use credentials::link;
use operations::apps::keys;
use serde::Deserialize;
use serde_json::json;

use crate::app::DELETED;
use crate::options::{self, Options};
use crate::place::Place;
use crate::refused::OrMissing as _;

const LONGEST_GRACE: Duration = link::UNSUBSCRIBE_FOR;

/// Rotate the key that seals the unsubscribe and click links in an app's messages.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings app link-key rotate shop")]
pub(crate) enum Command {
    Rotate(RotateArguments),
}

/// Create a new link key for an app. Links that were sealed with earlier keys stay valid for a grace period.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Recipients must be able to unsubscribe for at least 30 days after an email (CAN-SPAM). Use a grace period
of 0s only if the key or the links themselves have leaked.

Examples:
  tidings app link-key rotate shop
  tidings app link-key rotate shop --grace 0s"
)]
pub(crate) struct RotateArguments {
    /// Name or id of the app
    app: String,
    /// Time for which links sealed with earlier keys stay valid, at most 400 days; 0s invalidates them within five
    /// seconds
    #[arg(long, value_name = "TIME", default_value = "60d", value_parser = parse_grace)]
    grace: Duration,
    #[command(flatten)]
    options: Options,
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    options::parse_time(text, LONGEST_GRACE, "at most 400 days, the maximum validity of unsubscribe links")
}

#[derive(Deserialize)]
struct Rotated {
    version: i32,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    let Command::Rotate(arguments) = command;
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let grace = arguments.grace;
    let rotated = match place {
        Place::Database(database) => {
            let rotated = keys::rotate_link_key(&database.operations, &database.caller, app.id, grace).await;
            rotated.map(|version| Rotated { version })
        }
        Place::Console(api) => {
            api.post(&[&"apps", &app.id, &"link-key"], &json!({"graceSeconds": grace.as_secs()})).await
        }
    };
    let Rotated { version } = rotated.or_missing(|| DELETED.to_owned())?;
    let grace = humantime::format_duration(grace).to_string();
    let report = json!({"id": app.id.to_string(), "name": app.name, "version": version, "grace": grace});
    let earlier = if arguments.grace.is_zero() {
        "Links sealed with earlier keys become invalid within five seconds.".to_owned()
    } else {
        format!("Links sealed with earlier keys stay valid for at most {grace}.")
    };
    let text = format!("App {} now seals its links with key version {version}. {earlier}\n", app.name);
    Ok(arguments.options.report(&report, text))
}
