use clap::Subcommand;
use domain::{ActorKind, Timestamp};
use operations::audit;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::database::audit::{AuditFilter, AuditRow};
use uuid::Uuid;

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::Options;
use crate::place::Place;

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

/// A row of the audit log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogRow {
    at: Timestamp,
    actor: String,
    actor_kind: Option<ActorKind>,
    action: String,
    subject: String,
    before: Option<Value>,
    after: Option<Value>,
    ip: Option<String>,
    request_id: Option<Uuid>,
}

impl From<AuditRow> for LogRow {
    fn from(row: AuditRow) -> LogRow {
        LogRow {
            at: row.at,
            actor: row.actor,
            actor_kind: row.actor_kind,
            action: row.action,
            subject: row.subject,
            before: row.before,
            after: row.after,
            ip: row.ip,
            request_id: row.request,
        }
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let more_than_asked = arguments.limit.saturating_add(1);
    let rows: Vec<LogRow> = match place {
        Place::Database(database) => {
            let filter = AuditFilter { since: arguments.since, ..AuditFilter::from(app.id) };
            let (operations, caller) = (&database.operations, &database.caller);
            rows(audit::list(operations, caller, filter, more_than_asked.into()).await?)
        }
        Place::Console(api) => {
            let query = Query::default().with("app", Some(app.id)).with("since", arguments.since);
            api.first(&[&"audit"], query, more_than_asked as usize).await?
        }
    };
    let header = ["AT", "ACTOR", "ACTION", "SUBJECT"];
    Ok(Listing::first(rows, arguments.limit).render(arguments.options.json, header, |row| {
        [row.at.to_string(), row.actor.clone(), row.action.clone(), row.subject.clone()]
    }))
}
