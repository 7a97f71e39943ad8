use domain::{Channel, Timestamp};
use operations::providers::{self, ProviderDetails};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::control::provider::ProviderSummary;

use super::{ProviderArguments, unknown};
use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::AppArguments;
use crate::place::Place;
use crate::refused::OrMissing as _;

/// A provider without its secrets.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProviderRow {
    identifier: String,
    channel: Channel,
    kind: String,
    priority: i32,
    enabled: bool,
    max_per_second: Option<u32>,
    settings: Value,
    #[serde(alias = "secrets", deserialize_with = "is_set")]
    has_secret: bool,
    version: i64,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmatched_receipts: Option<Vec<String>>,
}

fn is_set<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct Secrets {
        set: bool,
    }
    Secrets::deserialize(from).map(|secrets| secrets.set)
}

impl From<ProviderSummary> for ProviderRow {
    fn from(provider: ProviderSummary) -> ProviderRow {
        ProviderRow {
            identifier: provider.identifier,
            channel: provider.channel,
            kind: provider.kind,
            priority: provider.priority,
            enabled: provider.enabled,
            max_per_second: provider.max_per_second,
            settings: provider.settings,
            has_secret: provider.has_secret,
            version: provider.version,
            updated_at: provider.updated_at,
            unmatched_receipts: None,
        }
    }
}

impl From<ProviderDetails> for ProviderRow {
    fn from(found: ProviderDetails) -> ProviderRow {
        ProviderRow { unmatched_receipts: Some(found.unmatched_receipts), ..found.provider.into() }
    }
}

pub(super) async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.open().await?;
    let providers: Vec<ProviderRow> = match place {
        Place::Database(database) => {
            rows(providers::list(&database.operations, &database.caller, app.id).await?)
        }
        Place::Console(api) => api.whole(&[&"apps", &app.id, &"providers"], Query::default()).await?,
    };
    let header = ["IDENTIFIER", "CHANNEL", "KIND", "PRIORITY", "ENABLED", "SECRET", "VERSION"];
    Ok(Listing::new(providers).render(arguments.options.json, header, |provider| {
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
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let identifier = &arguments.identifier;
    let found = match place {
        Place::Database(database) => {
            let found = providers::find(&database.operations, &database.caller, app.id, identifier).await;
            found.map(ProviderRow::from)
        }
        Place::Console(api) => api.get(&[&"apps", &app.id, &"providers", identifier]).await,
    };
    let mut provider = found.or_missing(|| unknown(&app.name, identifier))?;
    provider.unmatched_receipts = provider.unmatched_receipts.filter(|ids| !ids.is_empty());
    let provider = json!(provider);
    Ok(arguments.options.report(&provider, format!("{provider:#}\n")))
}
