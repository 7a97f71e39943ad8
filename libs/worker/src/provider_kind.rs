//! Kinds of providers. A kind is one type that implements the parsing of settings, the call and the probe. A channel lists its
//! kinds once, and its worker and the command line both use this list. [`OpenProviders`] keeps the parsed settings of providers in use.

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

/// Time after which the settings of an unused provider are dropped.
const IDLE: Duration = Duration::from_secs(600);
/// Maximum number of providers whose settings are kept.
const MAX_PROVIDERS: u64 = 10_000;

/// The part of a channel that its kinds of providers share, such as connections and limits.
pub trait ChannelResources: Send + Sync + 'static {
    /// Content of a job, after the checks that are the same for every kind.
    type Input<'a>: Send;
}

pub trait ProviderKind: Send + Sync + 'static {
    type Resources: ChannelResources;
    /// Parsed settings of one version of a provider, with the state that lasts as long as this version is in use.
    type Settings: Send + Sync + 'static;

    /// Name of the kind in the description of a provider, such as `smtp`.
    const NAME: &'static str;
    /// Members of the settings that are stored encrypted and never shown; dots separate the names of nested members
    /// (`dkim.privateKey`).
    const SECRETS: &'static [&'static str];
    /// Example of valid settings, as JSON with comments. The help of the command shows it.
    const EXAMPLE: &'static str;
    /// Maximum duration of a call, if the protocol requires a longer one than the usual limit of three fifths of the lease. The
    /// worker renews its claim during the call. A call must still end early: see [`Lease`](crate::Lease).
    const LONGEST_CALL: Option<Duration> = None;

    /// Parses complete settings, including secrets. The result is kept as long as this version of the provider is in use.
    ///
    /// # Errors
    /// Returns every problem. The problems contain no secrets.
    fn parse(settings: &Value) -> Result<Self::Settings, Vec<Problem>>;

    /// Checks the settings of a new or changed provider. This may refuse more than [`parse`](Self::parse), which must also
    /// accept settings that were stored earlier.
    ///
    /// # Errors
    /// Returns every problem. The problems contain no secrets.
    fn check_new(settings: &Value) -> Result<(), Vec<Problem>> {
        Self::parse(settings).map(drop)
    }

    /// Returns true if the provider recognises a repeated call by the delivery's id and sends the message only once.
    fn deduplicates(_settings: &Self::Settings) -> bool {
        false
    }

    /// Makes one attempt. The future may be dropped at any time, like the future of
    /// [`ChannelSender::send`](crate::ChannelSender::send).
    fn send(
        attempt: Attempt<'_, Self::Resources>,
        settings: &Self::Settings,
    ) -> impl Future<Output = Answer> + Send;

    /// Makes a real call that tests the credentials without sending a message. Returns one sentence about the successful test.
    ///
    /// # Errors
    /// Returns the answer that an attempt would get.
    fn probe(
        settings: &Self::Settings,
        probe: &Probe<'_>,
    ) -> impl Future<Output = Result<String, Answer>> + Send;
}

/// One attempt through a provider.
pub struct Attempt<'a, C: ChannelResources> {
    pub resources: &'a C,
    pub call: &'a Call<'a>,
    pub input: C::Input<'a>,
}

/// A kind as a trait object, for the command line.
pub trait Kind: Send + Sync + 'static {
    /// See [`ProviderKind::NAME`].
    fn name(&self) -> &'static str;

    /// See [`ProviderKind::SECRETS`].
    fn secrets(&self) -> &'static [&'static str];

    /// See [`ProviderKind::EXAMPLE`].
    fn example(&self) -> &'static str;

    /// See [`ProviderKind::LONGEST_CALL`].
    fn longest_call(&self) -> Option<Duration>;

    /// See [`ProviderKind::check_new`].
    ///
    /// # Errors
    /// Returns every problem. The problems contain no secrets.
    fn check(&self, settings: &Value) -> Result<(), Vec<Problem>>;

    /// Parses the provider's settings and probes the provider, see [`ProviderKind::probe`].
    ///
    /// # Errors
    /// Returns the answer that an attempt would get.
    fn probe<'a>(&'a self, probe: &'a Probe<'a>) -> BoxFuture<'a, Result<String, Answer>>;
}

/// An entry in the list of a channel's kinds.
pub trait ChannelKind<C: ChannelResources>: Kind {
    /// Parses the settings of a provider.
    ///
    /// # Errors
    /// Returns every problem. The problems contain no secrets.
    fn open(&self, settings: &Value) -> Result<Box<dyn OpenProvider<C>>, Vec<Problem>>;
}

/// A provider with parsed settings.
pub trait OpenProvider<C: ChannelResources>: Send + Sync {
    /// See [`ProviderKind::deduplicates`].
    fn deduplicates(&self) -> bool;

    /// See [`ProviderKind::send`].
    fn send<'p, 'a: 'p>(&'p self, attempt: Attempt<'a, C>) -> BoxFuture<'p, Answer>;
}

/// A provider to probe, and the access that its probe needs.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    pub provider: &'a Provider,
    pub outbound: Outbound,
    pub now: Timestamp,
    /// Database and master key, for kinds whose credential belongs to the app and is not part of the settings. None if the
    /// probe has only the provider's settings.
    pub installation: Option<(&'a Store, &'a MasterKey)>,
}

impl Probe<'_> {
    /// Creates an HTTP caller for calls that take at most `limit`.
    ///
    /// # Errors
    /// Returns an answer if TLS cannot be set up.
    pub fn caller(&self, limit: Duration) -> Result<Caller, Answer> {
        let client = self.outbound.client().build().map_err(|error| {
            Answer::new(Outcome::RETRY, "tls", format!("TLS cannot be set up: {}", error.without_url()))
        })?;
        Ok(Caller::new(client, self.outbound, limit))
    }
}

/// Probes a provider of one of these kinds.
///
/// # Errors
/// Returns the answer that an attempt would get.
pub async fn probe<K: Kind + ?Sized>(kinds: &[&K], probe: &Probe<'_>) -> Result<String, Answer> {
    find(kinds, &probe.provider.kind)?.probe(probe).await
}

/// Returns the answer for a provider with invalid settings. The answer pauses the provider.
#[must_use]
pub fn unusable(problems: &[Problem]) -> Answer {
    Answer::new(Outcome::PauseProvider, "settings", joined(problems))
}

/// Finds a kind by its name. If the kind is unknown, returns an answer that pauses the provider.
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
    /// [`ProviderKind::LONGEST_CALL`].
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
