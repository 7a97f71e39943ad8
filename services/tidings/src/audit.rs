use clap::Subcommand;
use domain::Timestamp;
use operations::audit;
use serde_json::{Value, json};
use store::database::audit::{AuditFilter, AuditRow};

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::Options;

/// Read the audit log. It records the changes that operators make, and each user erased and each request cancelled
/// through the API.
///
/// The audit log is append-only. It names users by number, never by identifier or address.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings audit list shop")]
pub(crate) enum Command {
    List(ListArguments),
}

/// List the audit log of an app, latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings audit list shop
  tidings audit list shop --since 2027-01-31T00:00:00Z --limit 1000 --json")]
pub(crate) struct ListArguments {
    /// Name or id of the app
    app: String,
    /// Only rows written at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    options: Options,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write it as 2027-01-31T09:00:00Z".to_owned())
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::List(arguments) => list(&arguments).await,
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let more_than_asked = i64::from(arguments.limit) + 1;
    let filter = AuditFilter { since: arguments.since, ..AuditFilter::from(app.id) };
    let rows = audit::list(&operations, &caller, filter, more_than_asked).await?;
    let header = ["AT", "ACTOR", "ACTION", "SUBJECT"];
    Ok(Listing::first(rows, arguments.limit).render(arguments.options.json, as_json, header, |row| {
        [row.at.to_string(), row.actor.clone(), row.action.clone(), row.subject.clone()]
    }))
}

fn as_json(row: &AuditRow) -> Value {
    json!({
        "at": row.at, "actor": row.actor, "actorKind": row.actor_kind, "action": row.action, "subject": row.subject,
        "before": row.before, "after": row.after, "ip": row.ip, "requestId": row.request,
    })
}
