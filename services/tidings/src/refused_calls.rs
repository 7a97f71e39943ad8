use domain::Timestamp;
use operations::refused_calls::{self, RefusedCalls};
use serde::{Deserialize, Serialize};

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::AppArguments;
use crate::place::Place;

/// List the latest calls of an app that the API refused: answers 400, 401, 403, 409, 413, 422 and 429.
///
/// Gateways store refused calls once a second, without bodies and with a masked client address. Equal calls within a second
/// are one row. The last 1,000 rows of an app are kept, for at most 14 days.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings refused shop
  tidings refused shop --status 401
  tidings refused shop --limit 1000 --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    app: AppArguments,
    /// Only calls with this status, such as 400
    #[arg(long)]
    status: Option<u16>,
    /// Only calls with this error code, such as invalid_credentials
    #[arg(long)]
    code: Option<String>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
}

/// Equal calls that were refused.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefusedRow {
    at: Timestamp,
    times: u32,
    status: u16,
    method: String,
    route: String,
    code: String,
    fields: Vec<String>,
    api_key_start: String,
    client: String,
    proven: bool,
}

impl From<RefusedCalls> for RefusedRow {
    fn from(row: RefusedCalls) -> RefusedRow {
        let call = row.call;
        RefusedRow {
            at: row.at,
            times: row.times,
            status: call.status,
            method: call.method,
            route: call.route,
            code: call.code,
            fields: call.fields,
            api_key_start: call.api_key,
            client: call.client,
            proven: call.proven,
        }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.app.open().await?;
    let Arguments { status, code, limit, .. } = arguments;
    let limit = usize::from(*limit);
    let calls: Vec<RefusedRow> = match place {
        Place::Database(database) => {
            let is_wanted = |row: &RefusedCalls| {
                status.is_none_or(|status| row.call.status == status)
                    && code.as_deref().is_none_or(|code| row.call.code == code)
            };
            let (operations, caller) = (&database.operations, &database.caller);
            rows(refused_calls::page(operations, caller, app.id, None, limit, is_wanted).await?.calls)
        }
        // No call is refused with another status.
        Place::Console(_) if status.is_some_and(|status| !(400..=499).contains(&status)) => Vec::new(),
        Place::Console(api) => {
            let query = Query::default().with("status", *status).with("code", code.as_ref());
            api.after(&[&"apps", &app.id, &"refused"], query, limit, None).await?.0
        }
    };
    let json = arguments.app.options.json;
    if calls.is_empty() && !json {
        return Ok("No call was refused.\n".to_owned());
    }
    let header = ["LATEST", "TIMES", "STATUS", "CODE", "CALL", "FIELDS", "KEY", "CLIENT"];
    let text = Listing::new(calls).render(json, header, |row| {
        [
            row.at.to_string(),
            row.times.to_string(),
            row.status.to_string(),
            row.code.clone(),
            format!("{} {}", row.method, row.route),
            if row.fields.is_empty() { "-".to_owned() } else { row.fields.join(", ") },
            format!("{}…", row.api_key_start),
            row.client.clone() + if row.proven { "" } else { " (unproven)" },
        ]
    });
    Ok(text)
}
