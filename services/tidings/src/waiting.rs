mod release;

use clap::Subcommand;
use domain::{AppId, Channel, Reason, Timestamp};
use operations::requests::{self, MOST_WAITING};
use serde::{Deserialize, Serialize};
use store::deliveries::waiting::WaitingDeliveries;

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::numbers;
use crate::options::Options;
use crate::place::Place;

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
    let place = arguments.options.open().await?;
    let app = place.app_id(arguments.app.as_deref()).await?;
    let groups: Vec<GroupRow> = match place {
        Place::Database(database) => {
            rows(requests::waiting(&database.operations, &database.caller, app).await?)
        }
        Place::Console(api) => api.whole(&[&"waiting"], Query::default().with("app", app)).await?,
    };
    if groups.is_empty() && !arguments.options.json {
        return Ok("No delivery waits.\n".to_owned());
    }
    let counted: i64 = groups.iter().map(|group| group.deliveries).sum();
    let header = ["APP", "CHANNEL", "CAUSE", "PROVIDER", "CODE", "WAIT", "EARLIEST", "NEXT ATTEMPT"];
    let mut text = Listing::new(groups).render(arguments.options.json, header, |group| {
        [
            group.app.clone(),
            group.channel.to_string(),
            group.reason.as_str().replace('_', " "),
            group.provider.clone().unwrap_or_else(|| "-".to_owned()),
            group.code.clone().unwrap_or_else(|| "-".to_owned()),
            group.deliveries.to_string(),
            group.earliest_accepted_at.map(|at| at.to_string()).unwrap_or_default(),
            group.next_attempt_at.to_string(),
        ]
    });
    if !arguments.options.json && counted >= MOST_WAITING {
        text += &format!("\nMore than {} deliveries wait; only these are counted.\n", MOST_WAITING - 1);
    }
    Ok(text)
}

/// Deliveries that wait for the same cause.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupRow {
    #[serde(deserialize_with = "numbers::read")]
    app_id: AppId,
    app: String,
    channel: Channel,
    reason: Reason,
    provider: Option<String>,
    code: Option<String>,
    deliveries: i64,
    earliest_accepted_at: Option<Timestamp>,
    next_attempt_at: Timestamp,
}

impl From<WaitingDeliveries> for GroupRow {
    fn from(group: WaitingDeliveries) -> GroupRow {
        GroupRow {
            app_id: group.app,
            channel: group.channel,
            reason: group.reason,
            deliveries: group.deliveries,
            earliest_accepted_at: group.earliest_accepted_at(),
            next_attempt_at: group.next_attempt_at,
            app: group.app_name,
            provider: group.provider,
            code: group.code,
        }
    }
}
