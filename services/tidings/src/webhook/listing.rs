use domain::Timestamp;
use domain::webhook::WebhookEvent;
use operations::{OperationError, webhooks};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::webhooks::Endpoint;

use super::{REMOVED, endpoint};
use crate::admin_api::{AdminApi, Query};
use crate::app::AppRow;
use crate::listing::{Listing, rows};
use crate::numbers;
use crate::options::{AppArguments, Options};
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Remove an endpoint, with its secrets and its pending messages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings webhook remove shop https://shop.example.com/tidings")]
pub(crate) struct RemoveArguments {
    /// Name or id of the app
    app: String,
    /// URL or id of the endpoint
    endpoint: String,
    #[command(flatten)]
    options: Options,
}

/// An endpoint without its secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointRow {
    #[serde(deserialize_with = "numbers::read")]
    pub(super) id: i64,
    pub(super) url: String,
    events: Vec<WebhookEvent>,
    since: Timestamp,
    failing_since: Option<Timestamp>,
    pub(super) disabled_at: Option<Timestamp>,
    disabled_reason: Option<String>,
    secrets: u32,
    pending: u64,
    failed: u64,
}

impl From<Endpoint> for EndpointRow {
    fn from(endpoint: Endpoint) -> EndpointRow {
        let (disabled_at, disabled_reason) = endpoint.disabled.unzip();
        EndpointRow {
            id: endpoint.id,
            url: endpoint.url,
            events: endpoint.events,
            since: endpoint.since,
            failing_since: endpoint.failing_since,
            disabled_at,
            disabled_reason,
            secrets: endpoint.secrets,
            pending: endpoint.pending,
            failed: endpoint.failed,
        }
    }
}

pub(super) async fn endpoints(api: &AdminApi, app: &AppRow) -> Result<Vec<EndpointRow>, OperationError> {
    api.whole(&[&"apps", &app.id, &"webhooks"], Query::default()).await
}

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.open().await?;
    let endpoints = match place {
        Place::Database(database) => {
            rows(webhooks::list(&database.operations, &database.caller, app.id).await?)
        }
        Place::Console(api) => endpoints(&api, &app).await?,
    };
    let header = ["ID", "URL", "STATE", "PENDING", "FAILED", "EVENTS"];
    Ok(Listing::new(endpoints).render(arguments.options.json, header, |endpoint| {
        let events: Vec<_> = endpoint.events.iter().map(|event| event.as_str()).collect();
        let (pending, failed) = (endpoint.pending.to_string(), endpoint.failed.to_string());
        let url = endpoint.url.clone();
        [endpoint.id.to_string(), url, state(endpoint), pending, failed, events.join(",")]
    }))
}

fn state(endpoint: &EndpointRow) -> String {
    match (endpoint.disabled_at, endpoint.failing_since) {
        (Some(at), _) => {
            format!("off since {at} ({})", endpoint.disabled_reason.as_deref().unwrap_or_default())
        }
        (None, Some(since)) => format!("failing since {since}"),
        (None, None) => "on".to_owned(),
    }
}

pub(super) async fn remove(arguments: &RemoveArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let EndpointRow { id, url, pending, .. } = endpoint(&place, &app, &arguments.endpoint).await?;
    let removed = match place {
        Place::Database(database) => {
            webhooks::remove(&database.operations, &database.caller, app.id, id).await
        }
        Place::Console(api) => api.delete(&[&"apps", &app.id, &"webhooks", &id]).await,
    };
    removed.or_missing(|| REMOVED.to_owned())?;
    let report = json!({"id": id, "url": url, "untold": pending});
    Ok(arguments.options.report(
        &report,
        format!("Removed endpoint {id} of app {}, {url}, with {pending} pending messages.\n", app.name),
    ))
}
