//! Providers in use, with their parsed settings.

use std::sync::Arc;
use std::time::Duration;

use domain::{Answer, Channel, Outcome};
use moka::future::Cache;

use crate::Provider;
use crate::provider::ProviderVersion;
use crate::provider_kind::{Attempt, ChannelKind, ChannelResources, OpenProvider, find, unusable};

/// Time after which the settings of an unused provider are dropped.
const IDLE: Duration = Duration::from_secs(600);
/// Maximum number of providers whose settings are kept.
const MAX_PROVIDERS: u64 = 10_000;

/// Cache of a channel's providers. Each version of a provider's settings is parsed once. Clones share the cache.
pub struct OpenProviders<C: ChannelResources> {
    kinds: &'static [&'static dyn ChannelKind<C>],
    known: Cache<ProviderVersion, Arc<dyn OpenProvider<C>>>,
}

impl<C: ChannelResources> OpenProviders<C> {
    /// Creates a cache of providers of these kinds.
    #[must_use]
    pub fn new(kinds: &'static [&'static dyn ChannelKind<C>]) -> OpenProviders<C> {
        OpenProviders {
            kinds,
            known: Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build(),
        }
    }

    /// Returns the maximum duration of a call to a provider of this kind, see
    /// [`ProviderKind::LONGEST_CALL`](crate::ProviderKind::LONGEST_CALL).
    #[must_use]
    pub fn longest_call(&self, kind: &str) -> Option<Duration> {
        self.kinds.iter().find(|known| known.name() == kind)?.longest_call()
    }

    /// Makes one attempt through the provider of the call. If the provider's settings cannot be parsed, returns an answer that
    /// pauses the provider. If the message must not be sent twice (SMS) and an earlier call may have been accepted
    /// (`route.keyed`), calls the provider only if it de-duplicates.
    pub async fn send(&self, attempt: Attempt<'_, C>) -> Answer {
        let provider = match self.open(attempt.call.provider).await {
            Ok(provider) => provider,
            Err(unusable) => return unusable,
        };
        let job = attempt.call.job;
        if Channel::ONCE.contains(&job.channel) && job.route.keyed && !provider.deduplicates() {
            let message = "the provider may have accepted the message and is no longer idempotent: it was not called again";
            return Answer::new(Outcome::Unknown, "provider_changed", message);
        }
        provider.send(attempt).await
    }

    async fn open(&self, provider: &Provider) -> Result<Arc<dyn OpenProvider<C>>, Answer> {
        let kind = find(self.kinds, &provider.kind)?;
        let opening = async { kind.open(&provider.settings).map(Arc::from) };
        let opened = self.known.try_get_with(ProviderVersion::of(provider), opening).await;
        opened.map_err(|problems| unusable(&problems))
    }
}

impl<C: ChannelResources> Clone for OpenProviders<C> {
    fn clone(&self) -> Self {
        OpenProviders { kinds: self.kinds, known: self.known.clone() }
    }
}
