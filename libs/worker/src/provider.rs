use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use credentials::MasterKey;
use credentials::secrets::provider_context;
use domain::{AppId, Channel};
use moka::future::Cache;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use service_kit::Context;
use store::Store;
use store::control::provider::ProviderRow;

/// A change of a provider takes effect within this time.
const FRESH: Duration = Duration::from_secs(2);
const MAX_APPS: u64 = 10_000;

#[derive(Clone)]
pub struct Provider {
    pub app: AppId,
    pub identifier: String,
    /// Name such as `smtp`.
    pub kind: String,
    /// Settings with the secrets filled in.
    pub settings: Value,
    /// Increases with every change.
    pub version: i64,
}

/// Version numbers are never reused, even if a provider is removed and a new one gets its identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProviderVersion {
    app: AppId,
    identifier: String,
    version: i64,
}

impl ProviderVersion {
    #[must_use]
    pub fn of(provider: &Provider) -> ProviderVersion {
        ProviderVersion {
            app: provider.app,
            identifier: provider.identifier.clone(),
            version: provider.version,
        }
    }
}

#[derive(Clone)]
pub(crate) struct UsableProvider {
    pub(crate) provider: Provider,
    /// Calls per second of each worker.
    pub(crate) max_per_second: Option<u32>,
}

pub(crate) struct Providers {
    store: Store,
    master_key: MasterKey,
    channel: Channel,
    known: Cache<AppId, Arc<[UsableProvider]>>,
}

impl Providers {
    pub(crate) fn new(context: &Context, channel: Channel) -> Providers {
        let known = Cache::builder().max_capacity(MAX_APPS).time_to_live(FRESH).build();
        Providers { store: context.store.clone(), master_key: context.master_key.clone(), channel, known }
    }

    /// Providers in the order in which they are tried. One whose secrets cannot be decrypted is left out: deliveries that need it wait as
    /// timers, all others continue.
    pub(crate) async fn of(&self, app: AppId) -> Result<Arc<[UsableProvider]>, Arc<anyhow::Error>> {
        self.known.try_get_with(app, self.load(app)).await
    }

    async fn load(&self, app: AppId) -> anyhow::Result<Arc<[UsableProvider]>> {
        let rows = self.store.control().providers(app, self.channel).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let (identifier, max_per_second) = (row.identifier.clone(), row.max_per_second);
                let opened = Provider::open(&self.master_key, app, row).inspect_err(|error| {
                    let error = format!("{error:#}");
                    tracing::error!(
                        %app, provider = identifier, error,
                        "cannot decrypt the secrets of a provider; not using the provider"
                    );
                });
                Some(UsableProvider { provider: opened.ok()?, max_per_second })
            })
            .collect())
    }
}

impl Provider {
    /// Fails if the secrets were sealed with another master key, or are damaged.
    pub fn open(master_key: &MasterKey, app: AppId, row: ProviderRow) -> anyhow::Result<Provider> {
        let ProviderRow { identifier, kind, mut settings, sealed, version, .. } = row;
        if let (Some(sealed), Value::Object(members)) = (sealed, &mut settings) {
            fill_in(members, open_secrets(master_key, app, &identifier, &sealed)?);
        }
        Ok(Provider { app, identifier, kind, settings, version })
    }
}

/// Returns secrets with the same nesting as the settings. Fails if they were sealed with another master key, or are damaged.
pub fn open_secrets(
    master_key: &MasterKey,
    app: AppId,
    identifier: &str,
    sealed: &[u8],
) -> anyhow::Result<Map<String, Value>> {
    let opened = master_key.open(&provider_context(app, identifier), sealed)?;
    serde_json::from_slice(opened.expose_secret())
        .with_context(|| format!("the secrets of provider {identifier} cannot be read"))
}

fn fill_in(settings: &mut Map<String, Value>, secrets: Map<String, Value>) {
    for (name, secret) in secrets {
        match (settings.get_mut(&name), secret) {
            (Some(Value::Object(inner)), Value::Object(secrets)) => fill_in(inner, secrets),
            (_, secret) => {
                settings.insert(name, secret);
            }
        }
    }
}
