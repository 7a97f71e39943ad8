use std::time::Duration;

use ::webhooks::Caller;
use ::webhooks::call::Message;
use anyhow::bail;
use operations::webhooks;
use serde_json::json;
use service_kit::{clock, install_crypto_provider};

use super::unknown;
use crate::control_plane::ControlPlane;
use crate::options::Options;
use crate::print::print;
use crate::refused::OrMissing as _;

const LIMIT: Duration = Duration::from_secs(15);

/// Send an endpoint one signed `webhook.test` event, and print its answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 if the endpoint did not accept the event.

Example:
  tidings webhook test shop https://shop.example.com/tidings")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// URL or id of the endpoint
    endpoint: String,
    #[command(flatten)]
    options: Options,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let database = arguments.options.place.open_database_only().await?;
    let app = database.app(&arguments.app).await?;
    let ControlPlane { operations, caller, outbound, .. } = database;
    let found = webhooks::find(&operations, &caller, app.id, &arguments.endpoint).await;
    let endpoint = found.or_missing(|| unknown(&arguments.endpoint))?;
    let secrets = webhooks::secrets(&operations, &caller, app.id, endpoint.id).await?;
    install_crypto_provider();
    let body = json!({"type": "webhook.test", "timestamp": clock::now(), "data": {}}).to_string();
    let message = Message { id: clock::new_id(), body: &body, secrets: &secrets };
    let answer = Caller::new(outbound, LIMIT)?.post(&endpoint.url, message).await;
    let accepted = answer.is_accepted();
    let code = &answer.code;
    let body = String::from_utf8_lossy(&answer.body);
    if arguments.options.json {
        let report =
            json!({"id": message.id, "url": endpoint.url, "taken": accepted, "answer": code, "body": body});
        print(&format!("{report}\n"))?;
    }
    if !accepted {
        bail!("{} did not accept the call: {code}{}", endpoint.url, printable(&body));
    }
    Ok(if arguments.options.json {
        String::new()
    } else {
        format!("{} accepted the call: {code}{}\n", endpoint.url, printable(&body))
    })
}

/// Removes control characters, and adds an empty line before an answer that is not empty.
fn printable(answer: &str) -> String {
    let plain: String = answer.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
    if plain.trim().is_empty() { String::new() } else { format!("\n\n{}", plain.trim()) }
}
