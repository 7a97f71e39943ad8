//! `tidings provider list` and `show`: providers without their secrets.

use anyhow::Context as _;
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;

use super::{ProviderArguments, unknown};
use crate::listing::Listing;
use crate::options::AppArguments;

/// Maximum number of ids of unmatched receipts that `show` lists.
const UNMATCHED_SHOWN: u32 = 5;

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.open().await?;
    let providers = control_plane.store.control().list_providers(app.id).await?;
    let header = ["IDENTIFIER", "CHANNEL", "KIND", "PRIORITY", "ENABLED", "SECRET", "VERSION"];
    Ok(Listing::new(providers).render(arguments.options.json, as_json, header, |provider| {
        [
            provider.identifier.clone(),
            provider.channel.to_string(),
            provider.kind.clone(),
            provider.priority.to_string(),
            if provider.enabled { "yes" } else { "no" }.to_owned(),
            if provider.has_secret { "kept" } else { "none" }.to_owned(),
            provider.version.to_string(),
        ]
    }))
}

pub(super) async fn show(arguments: &ProviderArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let providers = control_plane.store.control().list_providers(app.id).await?;
    let provider = providers.iter().find(|provider| provider.identifier == arguments.identifier);
    let provider = provider.with_context(|| unknown(&app.name, &arguments.identifier))?;
    let unmatched = control_plane
        .store
        .deliveries()
        .unmatched_receipts(app.id, &provider.identifier, UNMATCHED_SHOWN)
        .await?;
    let mut provider = as_json(provider);
    if !unmatched.is_empty() {
        provider["unmatchedReceipts"] = json!(unmatched);
    }
    Ok(arguments.options.report(&provider, format!("{provider:#}\n")))
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
