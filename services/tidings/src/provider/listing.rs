//! `tidings provider list` and `show`: providers without their secrets.

use anyhow::Context as _;
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;

use super::{ProviderArguments, unknown};
use crate::control_plane::Installation;
use crate::table;

/// List the providers of an app, without their secrets.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings provider list shop --json")]
pub(crate) struct ListArguments {
    /// Name or id of the app
    app: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(super) async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let providers = control_plane.store.control().list_providers(app.id).await?;
    if arguments.json {
        return Ok(format!("{}\n", providers.iter().map(as_json).collect::<Value>()));
    }
    let rows: Vec<_> = providers
        .into_iter()
        .map(|provider| {
            let enabled = if provider.enabled { "yes" } else { "no" };
            let secret = if provider.has_secret { "kept" } else { "none" };
            let priority = provider.priority.to_string();
            let channel = provider.channel.to_string();
            let version = provider.version.to_string();
            [provider.identifier, channel, provider.kind, priority, enabled.into(), secret.into(), version]
        })
        .collect();
    let header = ["IDENTIFIER", "CHANNEL", "KIND", "PRIORITY", "ENABLED", "SECRET", "VERSION"];
    Ok(table::render(header, &rows))
}

pub(super) async fn show(arguments: &ProviderArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let providers = control_plane.store.control().list_providers(app.id).await?;
    let provider = providers.iter().find(|provider| provider.identifier == arguments.identifier);
    let provider = as_json(provider.with_context(|| unknown(&app.name, &arguments.identifier))?);
    Ok(if arguments.json { format!("{provider}\n") } else { format!("{provider:#}\n") })
}

fn as_json(provider: &ProviderSummary) -> Value {
    json!({
        "identifier": provider.identifier,
        "channel": provider.channel,
        "kind": provider.kind,
        "priority": provider.priority,
        "enabled": provider.enabled,
        "maxPerSecond": provider.max_per_second,
        "settings": provider.settings,
        "hasSecret": provider.has_secret,
        "version": provider.version,
        "updatedAt": provider.updated_at,
    })
}
