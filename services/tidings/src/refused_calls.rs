use operations::refused_calls::{self, RefusedCalls};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::AppArguments;

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

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (ControlPlane { operations, caller, .. }, app) = arguments.app.open().await?;
    let is_wanted = |row: &RefusedCalls| {
        arguments.status.is_none_or(|status| row.call.status == status)
            && arguments.code.as_deref().is_none_or(|code| row.call.code == code)
    };
    let limit = usize::from(arguments.limit);
    let page = refused_calls::page(&operations, &caller, app.id, None, limit, is_wanted).await?;
    let json = arguments.app.options.json;
    if page.calls.is_empty() && !json {
        return Ok("No call was refused.\n".to_owned());
    }
    let header = ["LATEST", "TIMES", "STATUS", "CODE", "CALL", "FIELDS", "KEY", "CLIENT"];
    let text = Listing::new(page.calls).render(json, as_json, header, |row| {
        [
            row.at.to_string(),
            row.times.to_string(),
            row.call.status.to_string(),
            row.call.code.clone(),
            format!("{} {}", row.call.method, row.call.route),
            if row.call.fields.is_empty() { "-".to_owned() } else { row.call.fields.join(", ") },
            format!("{}…", row.call.api_key),
            row.call.client.clone() + if row.call.proven { "" } else { " (unproven)" },
        ]
    });
    Ok(text)
}

fn as_json(row: &RefusedCalls) -> Value {
    let call = &row.call;
    json!({
        "at": row.at,
        "times": row.times,
        "status": call.status,
        "method": call.method,
        "route": call.route,
        "code": call.code,
        "fields": call.fields,
        "apiKeyStart": call.api_key,
        "client": call.client,
        "proven": call.proven,
    })
}
