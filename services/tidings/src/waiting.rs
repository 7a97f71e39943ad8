mod release;

use clap::Subcommand;
use operations::requests::{self, MOST_WAITING};
use serde_json::{Value, json};
use store::deliveries::waiting::WaitingDeliveries;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::Options;

/// List the deliveries that wait for a provider, grouped by cause.
///
/// A delivery waits while the circuit breaker of its provider is open, for the provider's rate limit, or for its next attempt.
/// It continues by itself. docs/statuses.md explains each cause, and what to do about it.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidings waiting
  tidings waiting --app shop --json
  tidings waiting release shop --channel email --reason breaker_open --provider main --code 421"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only deliveries of this app, by name or id
    #[arg(long)]
    app: Option<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    Release(release::Arguments),
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    if let Some(Command::Release(arguments)) = &arguments.command {
        return release::run(arguments).await;
    }
    let control_plane = arguments.options.open().await?;
    let app = control_plane.app_id(arguments.app.as_deref()).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let groups = requests::waiting(&operations, &caller, app).await?;
    if groups.is_empty() && !arguments.options.json {
        return Ok("No delivery waits.\n".to_owned());
    }
    let counted: i64 = groups.iter().map(|group| group.deliveries).sum();
    let header = ["APP", "CHANNEL", "CAUSE", "PROVIDER", "CODE", "WAIT", "EARLIEST", "NEXT ATTEMPT"];
    let mut text = Listing::new(groups).render(arguments.options.json, as_json, header, |group| {
        [
            group.app_name.clone(),
            group.channel.to_string(),
            group.reason.as_str().replace('_', " "),
            group.provider.clone().unwrap_or_else(|| "-".to_owned()),
            group.code.clone().unwrap_or_else(|| "-".to_owned()),
            group.deliveries.to_string(),
            group.earliest_accepted_at().map(|at| at.to_string()).unwrap_or_default(),
            group.next_attempt_at.to_string(),
        ]
    });
    if !arguments.options.json && counted >= MOST_WAITING {
        text += &format!("\nMore than {} deliveries wait; only these are counted.\n", MOST_WAITING - 1);
    }
    Ok(text)
}

fn as_json(group: &WaitingDeliveries) -> Value {
    json!({
        "appId": group.app,
        "app": group.app_name,
        "channel": group.channel,
        "reason": group.reason,
        "provider": group.provider,
        "code": group.code,
        "deliveries": group.deliveries,
        "earliestAcceptedAt": group.earliest_accepted_at(),
        "nextAttemptAt": group.next_attempt_at,
    })
}
