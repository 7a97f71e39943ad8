use operations::providers;
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;

use super::{ProviderArguments, unknown};
use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::AppArguments;
use crate::refused::OrMissing as _;

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.open().await?;
    let providers = providers::list(&control_plane.operations, &control_plane.caller, app.id).await?;
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
    let ControlPlane { operations, caller, .. } = control_plane;
    let found = providers::find(&operations, &caller, app.id, &arguments.identifier).await;
    let found = found.or_missing(|| unknown(&app.name, &arguments.identifier))?;
    let mut provider = as_json(&found.provider);
    if !found.unmatched_receipts.is_empty() {
        provider["unmatchedReceipts"] = json!(found.unmatched_receipts);
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
