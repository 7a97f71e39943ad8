//! `tidings webhook set`.

use anyhow::bail;
use credentials::secrets::webhook_secret_context;
use domain::webhook::WebhookEvent;
use secrecy::ExposeSecret;
use serde_json::json;
use store::webhooks::MAX_ENDPOINTS;
use webhooks::Secret;
use webhooks::call::parse_url;

use crate::control_plane::{Installation, actor};
use crate::refused::Refused;

/// Have an app's endpoint told what happens from now on. A new one gets a secret, which is printed once; for one that is
/// there, the events are set, and it is turned on where it was off.
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
    /// Where to call; https
    url: String,
    /// What to tell [default: everything]
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = parse_event)]
    events: Vec<WebhookEvent>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

fn parse_event(text: &str) -> Result<WebhookEvent, String> {
    let names: Vec<_> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
    text.trim().parse().map_err(|_| format!("there are {}", names.join(", ")))
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let url =
        parse_url(control_plane.outbound, &arguments.url).map_err(|error| Refused(error.to_string()))?;
    let mut events = match arguments.events.is_empty() {
        true => WebhookEvent::ALL.to_vec(),
        false => arguments.events.clone(),
    };
    events.sort_unstable();
    events.dedup();
    let app = control_plane.app(&arguments.app).await?;
    let Some(draft) = control_plane.store.put_endpoint(app.id, url.as_str(), &events).await? else {
        bail!("app {} has {MAX_ENDPOINTS} endpoints, and no app may have more", app.name);
    };
    let id = draft.id();
    let secret = match draft.is_new() {
        true => Some(Secret::generate()?.text()),
        false => None,
    };
    let sealed = match &secret {
        Some(secret) => {
            let context = webhook_secret_context(app.id, id);
            Some(control_plane.master_key().await?.seal(&context, secret.expose_secret().as_bytes())?)
        }
        None => None,
    };
    draft.commit(sealed.as_deref(), &actor()).await?;
    let shown = secret.as_ref().map(|secret| secret.expose_secret());
    if arguments.json {
        return Ok(format!(
            "{}\n",
            json!({"id": id, "url": url.as_str(), "events": events, "secret": shown})
        ));
    }
    let names: Vec<_> = events.iter().map(|event| event.as_str()).collect();
    let told = format!("Endpoint {id} of app {} is told {} at {url}.\n", app.name, names.join(", "));
    Ok(match shown {
        Some(secret) => format!(
            "{told}\n  secret  {secret}\n\nKeep the secret: it is not shown again. Calls are signed with it; how to verify \
             them, docs/webhooks.md says.\n"
        ),
        None => told,
    })
}
