use anyhow::bail;
use domain::webhook::{WebhookEvent, parse_url};
use operations::webhooks::{self, SetEndpoint};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;
use store::webhooks::MAX_ENDPOINTS;

use crate::app::AppRow;
use crate::control_plane::ControlPlane;
use crate::numbers;
use crate::options::Options;
use crate::place::Place;
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

/// The endpoint after the change.
#[derive(Deserialize)]
struct Set {
    #[serde(deserialize_with = "numbers::read")]
    id: i64,
    /// As the endpoint has it.
    url: String,
    events: Vec<WebhookEvent>,
    secret: Option<String>,
}

async fn set(
    arguments: &Arguments,
    place: &Place,
    app: &AppRow,
) -> anyhow::Result<Result<Set, OperationError>> {
    let Arguments { url, events, .. } = arguments;
    Ok(match place {
        Place::Database(database) => {
            let url = checked(url, database)?;
            let set = webhooks::set(&database.operations, &database.caller, app.id, &url, events).await;
            set.map(|SetEndpoint { id, events, secret }| {
                let secret = secret.map(|secret| secret.expose_secret().to_owned());
                Set { id, url, events, secret }
            })
        }
        Place::Console(api) => {
            api.post(&[&"apps", &app.id, &"webhooks"], &json!({"url": url, "events": events})).await
        }
    })
}

fn checked(url: &str, database: &ControlPlane) -> anyhow::Result<String> {
    let url = parse_url(url, database.outbound.allows_private());
    Ok(url.map_err(|error| InvalidInput(error.to_string()))?.into())
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    if let Place::Database(database) = &place {
        // The URL is checked again with the app, but an invalid one is reported first.
        checked(&arguments.url, database)?;
    }
    let app = place.app(&arguments.app).await?;
    let Set { id, url, events, secret } = match set(arguments, &place, &app).await? {
        Err(OperationError::Conflict(Conflict::TooManyEndpoints)) => {
            bail!("app {} already has {MAX_ENDPOINTS} endpoints, the maximum", app.name)
        }
        set => set?,
    };
    if arguments.options.json {
        return Ok(format!("{}\n", json!({"id": id, "url": url, "events": events, "secret": secret})));
    }
    let names: Vec<_> = events.iter().map(|event| event.as_str()).collect();
    let report = format!("Endpoint {id} of app {} receives {} at {url}.\n", app.name, names.join(", "));
    Ok(match secret {
        Some(secret) => format!(
            "{report}\n  secret  {secret}\n\nKeep the secret: it is not shown again. It signs the calls; docs/webhooks.md \
             describes how to verify them.\n"
        ),
        None => report,
    })
}
