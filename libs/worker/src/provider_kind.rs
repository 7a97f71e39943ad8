use std::sync::Arc;
use std::time::Duration;

use credentials::MasterKey;
use domain::problem::joined;
use domain::{Answer, Channel, Outcome, Problem, Timestamp};
use futures_util::future::BoxFuture;
use moka::future::Cache;
use serde_json::Value;
use store::Store;

use crate::exchange::Caller;
use crate::provider::ProviderVersion;
use crate::{Call, Outbound, Provider};

const IDLE: Duration = Duration::from_secs(600);
const MAX_PROVIDERS: u64 = 10_000;

/// Connections and limits that a channel's kinds share.
pub trait ChannelResources: Send + Sync + 'static {
    /// Content of a job, after the checks that are the same for every kind.
    type Input<'a>: Send;
}

pub trait ProviderKind: Send + Sync + 'static {
    type Resources: ChannelResources;
    /// Settings and the state that lasts as long as this version of the provider is in use.
    type Settings: Send + Sync + 'static;

    /// Name such as `smtp`.
    const NAME: &'static str;
    /// Members stored encrypted and never shown; dots separate nested names (`dkim.privateKey`).
    const SECRETS: &'static [&'static str];
    /// Settings as JSON with comments.
    const EXAMPLE: &'static str;
    /// Set if the protocol requires more than three fifths of the lease. A call must still end early: see [`Lease`](crate::Lease).
    const LONGEST_CALL: Option<Duration> = None;

    /// Parses complete settings, including secrets. The error lists every problem, without secrets.
    fn parse(settings: &Value) -> Result<Self::Settings, Vec<Problem>>;

    /// May refuse more than [`parse`](Self::parse), which must also accept settings that were stored earlier.
    fn check_new(settings: &Value) -> Result<(), Vec<Problem>> {
        Self::parse(settings).map(drop)
    }

    /// True if the provider recognises a repeated call by the delivery's id and sends the message only once.
    fn deduplicates(_settings: &Self::Settings) -> bool {
        false
    }

    /// The future may be dropped at any time, like the future of [`ChannelSender::send`](crate::ChannelSender::send).
    fn send(
        attempt: Attempt<'_, Self::Resources>,
        settings: &Self::Settings,
    ) -> impl Future<Output = Answer> + Send;

    /// Makes a real call that tests the credentials without sending a message. Returns one sentence for the operator.
    fn probe(
        settings: &Self::Settings,
        probe: &Probe<'_>,
    ) -> impl Future<Output = Result<String, Answer>> + Send;
}

pub struct Attempt<'a, C: ChannelResources> {
    pub resources: &'a C,
    pub call: &'a Call<'a>,
    pub input: C::Input<'a>,
}

pub trait Kind: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn secrets(&self) -> &'static [&'static str];

    fn example(&self) -> &'static str;

    fn longest_call(&self) -> Option<Duration>;

    fn check(&self, settings: &Value) -> Result<(), Vec<Problem>>;

    fn probe<'a>(&'a self, probe: &'a Probe<'a>) -> BoxFuture<'a, Result<String, Answer>>;
}

pub trait ChannelKind<C: ChannelResources>: Kind {
    fn open(&self, settings: &Value) -> Result<Box<dyn OpenProvider<C>>, Vec<Problem>>;
}

pub trait OpenProvider<C: ChannelResources>: Send + Sync {
    fn deduplicates(&self) -> bool;

    fn send<'p, 'a: 'p>(&'p self, attempt: Attempt<'a, C>) -> BoxFuture<'p, Answer>;
}

#[derive(Clone, Copy)]
pub struct Probe<'a> {
    pub provider: &'a Provider,
    pub outbound: Outbound,
    pub now: Timestamp,
    /// Access for kinds whose credential belongs to the app and is not part of the settings. None if the probe has only the settings.
    pub installation: Option<(&'a Store, &'a MasterKey)>,
}

impl Probe<'_> {
    pub fn caller(&self, limit: Duration) -> Result<Caller, Answer> {
        let client = self.outbound.client().build().map_err(|error| {
            Answer::new(Outcome::RETRY, "tls", format!("TLS cannot be set up: {}", error.without_url()))
        })?;
        Ok(Caller::new(client, self.outbound, limit))
    }
}

pub async fn probe<K: Kind + ?Sized>(kinds: &[&K], probe: &Probe<'_>) -> Result<String, Answer> {
    find(kinds, &probe.provider.kind)?.probe(probe).await
}

/// Answer that pauses the provider.
#[must_use]
pub fn unusable(problems: &[Problem]) -> Answer {
    Answer::new(Outcome::PauseProvider, "settings", joined(problems))
}

/// An unknown kind pauses the provider.
fn find<'a, K: Kind + ?Sized>(kinds: &[&'a K], name: &str) -> Result<&'a K, Answer> {
    kinds.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let message =
            format!("{name:?} is not a kind of provider of this channel, only {}", known.join(", "));
        Answer::new(Outcome::PauseProvider, "settings", message)
    })
}

impl<K: ProviderKind> Kind for K {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn secrets(&self) -> &'static [&'static str] {
        K::SECRETS
    }

    fn example(&self) -> &'static str {
        K::EXAMPLE
    }

    fn longest_call(&self) -> Option<Duration> {
        K::LONGEST_CALL
    }

    fn check(&self, settings: &Value) -> Result<(), Vec<Problem>> {
        K::check_new(settings)
    }

    fn probe<'a>(&'a self, probe: &'a Probe<'a>) -> BoxFuture<'a, Result<String, Answer>> {
        Box::pin(async move {
            let settings = K::parse(&probe.provider.settings).map_err(|problems| unusable(&problems))?;
            K::probe(&settings, probe).await
        })
    }
}

impl<K: ProviderKind> ChannelKind<K::Resources> for K {
    fn open(&self, settings: &Value) -> Result<Box<dyn OpenProvider<K::Resources>>, Vec<Problem>> {
        Ok(Box::new(ParsedProvider::<K>(K::parse(settings)?)))
    }
}

struct ParsedProvider<K: ProviderKind>(K::Settings);

impl<K: ProviderKind> OpenProvider<K::Resources> for ParsedProvider<K> {
    fn deduplicates(&self) -> bool {
        K::deduplicates(&self.0)
    }

    fn send<'p, 'a: 'p>(&'p self, attempt: Attempt<'a, K::Resources>) -> BoxFuture<'p, Answer> {
        Box::pin(K::send(attempt, &self.0))
    }
}

/// Cache in which each version of a provider's settings is parsed once. Clones share it.
pub struct OpenProviders<C: ChannelResources> {
    kinds: &'static [&'static dyn ChannelKind<C>],
    known: Cache<ProviderVersion, Arc<dyn OpenProvider<C>>>,
}

impl<C: ChannelResources> OpenProviders<C> {
    #[must_use]
    pub fn new(kinds: &'static [&'static dyn ChannelKind<C>]) -> OpenProviders<C> {
        OpenProviders {
            kinds,
            known: Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build(),
        }
    }

    #[must_use]
    pub fn longest_call(&self, kind: &str) -> Option<Duration> {
        self.kinds.iter().find(|known| known.name() == kind)?.longest_call()
    }

    /// If the provider's settings cannot be parsed, returns an answer that pauses the provider. If the message must not be sent twice (SMS)
    /// and an earlier call may have been accepted (`route.keyed`), calls the provider only if it de-duplicates.
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

    /// Makes the test call of the provider's kind. The provider is not kept: the next attempt uses the stored version.
    pub async fn probe(&self, probe: &Probe<'_>) -> Result<String, Answer> {
        crate::probe(self.kinds, probe).await
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
