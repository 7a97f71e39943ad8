use anyhow::bail;
use domain::webhook::{WebhookEvent, parse_url};
use operations::webhooks::{self, SetEndpoint};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde_json::json;
use store::webhooks::MAX_ENDPOINTS;

use crate::control_plane::ControlPlane;
use crate::options::Options;
use crate::refused::InvalidInput;

/// Set an endpoint of an app. The endpoint receives events from now on. A new endpoint gets a secret, which is printed once. For
/// an existing endpoint, the command sets the events, and turns the endpoint on if it was off.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Events: delivery.sent, delivery.delivered, delivery.failed, delivery.suppressed, notification.read

Examples:
  tidings webhook set shop https://shop.example.com/tidings
  tidings webhook set shop https://shop.example.com/tidings --events delivery.failed,delivery.suppressed --json"
)]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// URL to call, with https
    url: String,
    /// Events to report [default: all]
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = parse_event)]
    events: Vec<WebhookEvent>,
    #[command(flatten)]
    options: Options,
}

fn parse_event(text: &str) -> Result<WebhookEvent, String> {
    let names: Vec<_> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
    text.trim().parse().map_err(|_| format!("expected one of {}", names.join(", ")))
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    // The URL is checked again with the app, but an invalid one is reported first.
    let url = parse_url(&arguments.url, control_plane.outbound.allows_private());
    let url = url.map_err(|error| InvalidInput(error.to_string()))?;
    let app = control_plane.app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let set = webhooks::set(&operations, &caller, app.id, url.as_str(), &arguments.events).await;
    let SetEndpoint { id, events, secret } = match set {
        Err(OperationError::Conflict(Conflict::TooManyEndpoints)) => {
            bail!("app {} already has {MAX_ENDPOINTS} endpoints, the maximum", app.name)
        }
        set => set?,
    };
    let shown = secret.as_ref().map(|secret| secret.expose_secret());
    if arguments.options.json {
        return Ok(format!(
            "{}\n",
            json!({"id": id, "url": url.as_str(), "events": events, "secret": shown})
        ));
    }
    let names: Vec<_> = events.iter().map(|event| event.as_str()).collect();
    let report = format!("Endpoint {id} of app {} receives {} at {url}.\n", app.name, names.join(", "));
    Ok(match shown {
        Some(secret) => format!(
            "{report}\n  secret  {secret}\n\nKeep the secret: it is not shown again. It signs the calls; docs/webhooks.md \
             describes how to verify them.\n"
        ),
        None => report,
    })
}
