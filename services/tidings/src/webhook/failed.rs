use std::cmp::Reverse;
use std::fmt::Display;

use domain::Timestamp;
use operations::{Conflict, OperationError, webhooks};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::webhooks::FailedMessage;
use uuid::Uuid;

use super::endpoint;
use super::listing::{EndpointRow, endpoints};
use crate::admin_api::{AdminApi, Changed, Query};
use crate::app::AppRow;
use crate::listing::{Listing, rows};
use crate::numbers;
use crate::options::Options;
use crate::place::Place;
use crate::refused::InvalidInput;

/// List webhook messages that Tidings gave up on after a day of attempts, or because the endpoint answered 410 Gone.
/// The latest come first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings webhook failed shop --limit 20")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// Only messages to this endpoint, by URL or id
    #[arg(long)]
    endpoint: Option<String>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    options: Options,
}

/// Redeliver webhook messages that Tidings gave up on. They keep their ids and get a full series of attempts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings webhook redeliver shop 0197b5a2-3c4d-5e6f-8a9b-0c1d2e3f4a5b
  tidings webhook redeliver shop --all --endpoint https://shop.example.com/tidings")]
pub(crate) struct RedeliverArguments {
    /// Name or id of the app
    app: String,
    /// Ids of messages, as `failed` lists them
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<Uuid>,
    /// Select all messages that Tidings gave up on
    #[arg(long)]
    all: bool,
    /// Only messages to this endpoint, by URL or id
    #[arg(long)]
    endpoint: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// A message that Tidings gave up on.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailedRow {
    id: Uuid,
    #[serde(alias = "endpointId", deserialize_with = "numbers::read")]
    endpoint: i64,
    url: String,
    event: String,
    created_at: Timestamp,
    given_up_at: Timestamp,
    attempts: u32,
    last_answer: String,
}

impl From<FailedMessage> for FailedRow {
    fn from(message: FailedMessage) -> FailedRow {
        FailedRow {
            id: message.id,
            endpoint: message.endpoint,
            url: message.url,
            event: message.event,
            created_at: message.created_at,
            given_up_at: message.given_up_at,
            attempts: message.attempts,
            last_answer: message.last_answer,
        }
    }
}

/// Returns the endpoint that an argument names, or all of the app.
async fn selected(
    api: &AdminApi,
    app: &AppRow,
    named: Option<EndpointRow>,
) -> anyhow::Result<Vec<EndpointRow>> {
    match named {
        Some(endpoint) => Ok(vec![endpoint]),
        None => Ok(endpoints(api, app).await?),
    }
}

pub(super) async fn list(arguments: &Arguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let named = match &arguments.endpoint {
        Some(named) => Some(endpoint(&place, &app, named).await?),
        None => None,
    };
    let limit = arguments.limit;
    let failed: Vec<FailedRow> = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let endpoint = named.map(|endpoint| endpoint.id);
            rows(webhooks::failed(operations, caller, app.id, endpoint, limit).await?)
        }
        Place::Console(api) => {
            let mut failed: Vec<FailedRow> = Vec::new();
            for endpoint in selected(&api, &app, named).await? {
                let path: [&dyn Display; 5] = [&"apps", &app.id, &"webhooks", &endpoint.id, &"failed"];
                failed.extend(api.whole::<FailedRow>(&path, Query::default()).await?);
            }
            failed.sort_by_key(|message| Reverse(message.given_up_at));
            failed.truncate(limit as usize);
            failed
        }
    };
    let header = ["ID", "EVENT", "GIVEN UP", "ATTEMPTS", "LAST ANSWER", "URL"];
    Ok(Listing::new(failed).render(arguments.options.json, header, |message| {
        let FailedRow { id, event, given_up_at, attempts, last_answer, url, .. } = message;
        let (event, answer, url) = (event.clone(), last_answer.clone(), url.clone());
        [id.to_string(), event, given_up_at.to_string(), attempts.to_string(), answer, url]
    }))
}

/// Redelivers at each endpoint. Disabled endpoints are left out, unless one is named: the call refuses them.
async fn call(
    arguments: &RedeliverArguments,
    api: &AdminApi,
    app: &AppRow,
    named: Option<EndpointRow>,
) -> anyhow::Result<Result<u64, OperationError>> {
    let is_named = named.is_some();
    let body = if arguments.all { json!({}) } else { json!({"ids": arguments.ids}) };
    let mut redelivered = 0;
    for endpoint in selected(api, app, named).await? {
        if endpoint.disabled_at.is_some() && !is_named {
            continue;
        }
        let path: [&dyn Display; 5] = [&"apps", &app.id, &"webhooks", &endpoint.id, &"redeliver"];
        match api.post(&path, &body).await {
            Ok(Changed { changed }) => redelivered += changed,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(redelivered))
}

pub(super) async fn redeliver(arguments: &RedeliverArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let (named, url) = match &arguments.endpoint {
        Some(named) => {
            let endpoint = endpoint(&place, &app, named).await?;
            let url = endpoint.url.clone();
            (Some(endpoint), url)
        }
        None => (None, String::new()),
    };
    let redelivered = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let named = match &named {
                Some(endpoint) => {
                    Some(webhooks::find(operations, caller, app.id, &endpoint.id.to_string()).await?)
                }
                None => None,
            };
            let ids = (!arguments.all).then_some(arguments.ids.as_slice());
            webhooks::redeliver(operations, caller, app.id, named.as_ref(), ids).await
        }
        Place::Console(api) => call(arguments, &api, &app, named).await?,
    };
    let redelivered = match redelivered {
        Err(OperationError::Conflict(Conflict::EndpointDisabled)) => {
            let message =
                format!("{url} is turned off; turn it on with `tidings webhook set {} {url}`", app.name);
            return Err(InvalidInput(message).into());
        }
        redelivered => redelivered?,
    };
    let report = json!({"redelivered": redelivered});
    Ok(arguments.options.report(&report, format!("{redelivered} messages will be delivered again.\n")))
}
