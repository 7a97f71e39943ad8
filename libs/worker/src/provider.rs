//! The providers of an app, with their secrets, as of a moment ago.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use domain::{AppId, Channel};
use moka::future::Cache;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use service_kit::{Context, MasterKey};
use store::Store;
use store::provider::ProviderRow;

/// How long a change of a provider may go unnoticed.
const FRESH: Duration = Duration::from_secs(2);
/// Apps whose providers are kept at once.
const MAX_APPS: u64 = 10_000;

/// Whom a delivery goes through.
#[derive(Clone)]
pub struct Provider {
    /// The app.
    pub app: AppId,
    /// Unique in the app.
    pub identifier: String,
    /// What it speaks, such as `smtp`.
    pub kind: String,
    /// Settings with the secrets filled in.
    pub settings: Value,
    /// Grows with every change.
    pub version: i64,
}

/// Looks providers up.
pub(crate) struct Providers {
    store: Store,
    master_key: MasterKey,
    channel: Channel,
    known: Cache<AppId, Arc<[Provider]>>,
}

impl Providers {
    pub(crate) fn new(context: &Context, channel: Channel) -> Providers {
        let known = Cache::builder().max_capacity(MAX_APPS).time_to_live(FRESH).build();
        Providers { store: context.store.clone(), master_key: context.master_key.clone(), channel, known }
    }

    /// The enabled providers of an app for the channel, the preferred one first. One whose secrets cannot be opened
    /// counts as absent: it holds up its own deliveries, which wait as timers, and nobody else's.
    pub(crate) async fn of(&self, app: AppId) -> Result<Arc<[Provider]>, Arc<anyhow::Error>> {
        self.known.try_get_with(app, self.load(app)).await
    }

    async fn load(&self, app: AppId) -> anyhow::Result<Arc<[Provider]>> {
        let rows = self.store.providers(app, self.channel).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let identifier = row.identifier.clone();
                self.open(app, row)
                    .inspect_err(|error| {
                        let error = format!("{error:#}");
                        tracing::error!(%app, provider = identifier, error, "a provider cannot be used");
                    })
                    .ok()
            })
            .collect())
    }

    fn open(&self, app: AppId, row: ProviderRow) -> anyhow::Result<Provider> {
        let ProviderRow { identifier, kind, mut settings, sealed, version, .. } = row;
        if let (Some(sealed), Value::Object(members)) = (sealed, &mut settings) {
            let opened = self.master_key.open(&format!("provider:{app}:{identifier}"), &sealed)?;
            let secrets: serde_json::Map<String, Value> = serde_json::from_slice(opened.expose_secret())
                .with_context(|| format!("the secrets of provider {identifier} cannot be read"))?;
            members.extend(secrets);
        }
        Ok(Provider { app, identifier, kind, settings, version })
    }
}
