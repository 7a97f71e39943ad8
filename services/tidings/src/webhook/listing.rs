use operations::webhooks;
use serde_json::{Value, json};
use store::webhooks::Endpoint;

use super::REMOVED;
use crate::listing::Listing;
use crate::options::{AppArguments, Options};
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

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.open().await?;
    let endpoints = webhooks::list(&control_plane.operations, &control_plane.caller, app.id).await?;
    let header = ["ID", "URL", "STATE", "PENDING", "FAILED", "EVENTS"];
    Ok(Listing::new(endpoints).render(arguments.options.json, as_json, header, |endpoint| {
        let events: Vec<_> = endpoint.events.iter().map(|event| event.as_str()).collect();
        let (pending, failed) = (endpoint.pending.to_string(), endpoint.failed.to_string());
        let url = endpoint.url.clone();
        [endpoint.id.to_string(), url, state(endpoint), pending, failed, events.join(",")]
    }))
}

fn state(endpoint: &Endpoint) -> String {
    match (&endpoint.disabled, endpoint.failing_since) {
        (Some((at, reason)), _) => format!("off since {at} ({reason})"),
        (None, Some(since)) => format!("failing since {since}"),
        (None, None) => "on".to_owned(),
    }
}

fn as_json(endpoint: &Endpoint) -> Value {
    json!({
        "id": endpoint.id,
        "url": endpoint.url,
        "events": endpoint.events,
        "since": endpoint.since,
        "failingSince": endpoint.failing_since,
        "disabledAt": endpoint.disabled.as_ref().map(|(at, _)| at),
        "disabledReason": endpoint.disabled.as_ref().map(|(_, reason)| reason),
        "secrets": endpoint.secrets,
        "pending": endpoint.pending,
        "failed": endpoint.failed,
    })
}

pub(super) async fn remove(arguments: &RemoveArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let Endpoint { id, url, pending, .. } = control_plane.endpoint(app.id, &arguments.endpoint).await?;
    let removed = webhooks::remove(&control_plane.operations, &control_plane.caller, app.id, id).await;
    removed.or_missing(|| REMOVED.to_owned())?;
    let report = json!({"id": id, "url": url, "untold": pending});
    Ok(arguments.options.report(
        &report,
        format!("Removed endpoint {id} of app {}, {url}, with {pending} pending messages.\n", app.name),
    ))
}
