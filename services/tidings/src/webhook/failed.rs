use operations::webhooks;
use operations::{Conflict, OperationError};
use serde_json::{Value, json};
use store::webhooks::FailedMessage;
use uuid::Uuid;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::Options;
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

pub(super) async fn list(arguments: &Arguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let endpoint = match &arguments.endpoint {
        Some(named) => Some(control_plane.endpoint(app.id, named).await?.id),
        None => None,
    };
    let ControlPlane { operations, caller, .. } = control_plane;
    let failed = webhooks::failed(&operations, &caller, app.id, endpoint, arguments.limit).await?;
    let header = ["ID", "EVENT", "GIVEN UP", "ATTEMPTS", "LAST ANSWER", "URL"];
    Ok(Listing::new(failed).render(arguments.options.json, as_json, header, |message| {
        let FailedMessage { id, event, given_up_at, attempts, last_answer, url, .. } = message;
        let (event, answer, url) = (event.clone(), last_answer.clone(), url.clone());
        [id.to_string(), event, given_up_at.to_string(), attempts.to_string(), answer, url]
    }))
}

fn as_json(message: &FailedMessage) -> Value {
    json!({
        "id": message.id,
        "endpoint": message.endpoint,
        "url": message.url,
        "event": message.event,
        "createdAt": message.created_at,
        "givenUpAt": message.given_up_at,
        "attempts": message.attempts,
        "lastAnswer": message.last_answer,
    })
}

pub(super) async fn redeliver(arguments: &RedeliverArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let endpoint = match &arguments.endpoint {
        Some(named) => Some(control_plane.endpoint(app.id, named).await?),
        None => None,
    };
    let ids = (!arguments.all).then_some(arguments.ids.as_slice());
    let ControlPlane { operations, caller, .. } = control_plane;
    let redelivered = match webhooks::redeliver(&operations, &caller, app.id, endpoint.as_ref(), ids).await {
        Err(OperationError::Conflict(Conflict::EndpointDisabled)) => {
            let url = endpoint.map(|endpoint| endpoint.url).unwrap_or_default();
            let message =
                format!("{url} is turned off; turn it on with `tidings webhook set {} {url}`", app.name);
            return Err(InvalidInput(message).into());
        }
        redelivered => redelivered?,
    };
    let report = json!({"redelivered": redelivered});
    Ok(arguments.options.report(&report, format!("{redelivered} messages will be delivered again.\n")))
}
