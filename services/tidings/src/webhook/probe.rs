//! `tidings webhook test`: one signed call, now.

use std::time::Duration;

use anyhow::{Context as _, bail};
use credentials::secrets::webhook_secret_context;
use secrecy::ExposeSecret;
use serde_json::json;
use service_kit::{clock, install_crypto_provider};
use webhooks::call::Message;
use webhooks::{Caller, Secret};

use crate::command::print;
use crate::control_plane::Installation;

const LIMIT: Duration = Duration::from_secs(15);

/// Send an endpoint a signed `webhook.test` event, once, and print its answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 where the endpoint did not take it.

Example:
  tidings webhook test shop https://shop.example.com/tidings")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    /// URL or id of the endpoint
    endpoint: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let endpoint = control_plane.endpoint(app.id, &arguments.endpoint).await?;
    let (master_key, context) =
        (control_plane.master_key().await?, webhook_secret_context(app.id, endpoint.id));
    let mut secrets = Vec::new();
    for sealed in control_plane.store.webhook_secrets(app.id, endpoint.id).await? {
        let opened = master_key.open(&context, &sealed)?;
        let text = std::str::from_utf8(opened.expose_secret()).ok();
        secrets.push(text.and_then(Secret::parse).context("the stored secret cannot be read")?);
    }
    install_crypto_provider();
    let body = json!({"type": "webhook.test", "timestamp": clock::now(), "data": {}}).to_string();
    let message = Message { id: clock::new_id(), body: &body, secrets: &secrets };
    let answer = Caller::new(control_plane.outbound, LIMIT)?.tell(&endpoint.url, message).await;
    let (taken, code) = (answer.is_taken(), &answer.code);
    let said = String::from_utf8_lossy(&answer.body);
    if arguments.json {
        let told =
            json!({"id": message.id, "url": endpoint.url, "taken": taken, "answer": code, "body": said});
        print(&format!("{told}\n"))?;
    }
    if !taken {
        bail!("{} did not take the call: {code}{}", endpoint.url, shown(&said));
    }
    Ok(match arguments.json {
        true => String::new(),
        false => format!("{} took the call: {code}{}\n", endpoint.url, shown(&said)),
    })
}

fn shown(said: &str) -> String {
    let plain: String = said.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
    if plain.trim().is_empty() { String::new() } else { format!("\n\n{}", plain.trim()) }
}
