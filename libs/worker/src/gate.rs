//! Limits on the calls to a provider: its circuit breaker, its rate limit and, per lane, its number of concurrent calls. A
//! target may name a host, as a web push subscription names its push service. One user, or one such host, may have only a part
//! of the concurrent calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::breaker::Breaker;
use domain::health::Health;
use domain::outcome::Blame;
use domain::{Answer, AppId, Channel, Lane, Outcome, Timestamp, UserNumber};
use metrics::gauge;
use moka::future::Cache;
use service_kit::clock;
use service_kit::metrics::PROVIDER_BREAKER;
use tokio::time::Instant;

use crate::call_slots::CallSlots;
use crate::pace::Pace;
use crate::provider::UsableProvider;
use crate::rate::Rate;
use crate::shares::{Share, Shares};

/// Maximum number of providers whose state is kept.
const MAX_PROVIDERS: u64 = 10_000;
/// Maximum number of hosts whose health is kept. Targets name these hosts. A host without kept health counts as healthy.
const MAX_HOSTS: u64 = 10_000;
/// Time after which the state of an unused provider or host is dropped.
const IDLE: Duration = Duration::from_secs(3_600);

/// Gates of the providers that this process calls.
pub(crate) struct Gates {
    channel: Channel,
    share: usize,
    /// Gates by app, provider and version of the settings. The version is part of the key because failures with an old
    /// credential say nothing about a new one.
    known: Cache<(AppId, String, i64), Arc<Gate>>,
    /// Health of the hosts that targets name, separately for each provider.
    hosts: Cache<(AppId, String, i64, String), Arc<Mutex<Health>>>,
}

/// Gate of one provider: the state of the limits on its calls.
pub(crate) struct Gate {
    channel: Channel,
    app: AppId,
    identifier: String,
    health: Mutex<Health>,
    rate: Option<Rate>,
    /// Slots for concurrent calls, per lane.
    slots: [CallSlots; 2],
    pub(crate) pace: Pace,
    /// Concurrent calls by user and host, per lane.
    shares: [Arc<Shares>; 2],
}

/// Path to one target: a provider and, if the target names a host, that host.
pub(crate) struct TargetPath {
    pub(crate) gate: Arc<Gate>,
    host: Option<(String, Arc<Mutex<Health>>)>,
    user: UserNumber,
}

impl Gates {
    /// Creates the gates. Each provider may use three quarters of a lane's concurrent attempts. If a provider hangs, the
    /// rest stays available to the other providers until the breaker of that provider opens.
    pub(crate) fn new(channel: Channel, max_concurrency: usize) -> Gates {
        let known = Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build();
        let hosts = Cache::builder().max_capacity(MAX_HOSTS).time_to_idle(IDLE).build();
        Gates { channel, share: (max_concurrency * 3).div_ceil(4).max(1), known, hosts }
    }

    /// Returns the path of one user's delivery through a provider, and to the host that the target names, if any.
    pub(crate) async fn target_path(
        &self,
        usable: &UsableProvider,
        host: Option<&str>,
        user: UserNumber,
    ) -> TargetPath {
        let gate = self.of(usable).await;
        let host = match host {
            Some(host) => {
                let UsableProvider { provider, .. } = usable;
                let key = (provider.app, provider.identifier.clone(), provider.version, host.to_owned());
                Some((host.to_owned(), self.hosts.get_with(key, async { Arc::default() }).await))
            }
            None => None,
        };
        TargetPath { gate, host, user }
    }

    async fn of(&self, usable: &UsableProvider) -> Arc<Gate> {
        let provider = &usable.provider;
        let key = (provider.app, provider.identifier.clone(), provider.version);
        let gate = async {
            Arc::new(Gate {
                channel: self.channel,
                app: provider.app,
                identifier: provider.identifier.clone(),
                health: Mutex::default(),
                rate: usable.max_per_second.map(Rate::new),
                slots: [(); 2].map(|()| CallSlots::new(self.share)),
                pace: Pace::default(),
                shares: [(); 2].map(|()| Arc::new(Shares::of(self.share))),
            })
        };
        self.known.get_with(key, gate).await
    }
}

impl Gate {
    pub(crate) fn slots(&self, lane: Lane) -> &CallSlots {
        of_lane(&self.slots, lane)
    }

    /// Returns true if deliveries may be claimed although their calls have to wait: calls are short, and no rate limit counts the
    /// calls when they are admitted.
    pub(crate) fn may_claim_ahead(&self) -> bool {
        self.rate.is_none() && self.pace.is_short()
    }

    /// Consumes one token of the rate limit, or returns how long until the next one.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        self.rate.as_ref().map_or(Ok(()), Rate::take)
    }

    /// Returns the time to which to postpone a job that the rate limit refused.
    pub(crate) fn next_free_time(&self, now: Timestamp) -> Timestamp {
        self.rate.as_ref().map_or(now, |rate| rate.next_free_time(now))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Health) -> T) -> T {
        let mut health = locked(&self.health);
        let before = health.breaker().level();
        let result = change(&mut health);
        let level = health.breaker().level();
        if level != before {
            let (channel, app) = (self.channel.as_str(), self.app.to_string());
            let provider = self.identifier.clone();
            gauge!(PROVIDER_BREAKER, "channel" => channel, "app" => app, "provider" => provider)
                .set(f64::from(level));
            let (app, provider) = (self.app, &self.identifier);
            match *health.breaker() {
                Breaker::Open { until, .. } => {
                    tracing::warn!(%app, provider, %until, "the provider's circuit breaker opened; not calling the provider for now");
                }
                Breaker::Closed { .. } => {
                    tracing::info!(%app, provider, "the provider's circuit breaker closed; calling the provider again");
                }
                Breaker::HalfOpen { .. } => {
                    tracing::debug!(%app, provider, "the provider's circuit breaker is half open; trying one call");
                }
            }
        }
        result
    }
}

impl TargetPath {
    /// Returns None if the provider and the host both admit a call now, otherwise the time at which to check again.
    pub(crate) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let of_host = self.host.as_ref().and_then(|(_, host)| locked(host).closed_until(now, self.user));
        locked(&self.gate.health).closed_until(now, self.user).max(of_host)
    }

    /// Registers one call with the breakers of the provider and of the host. Returns None if one of them admits no call.
    pub(crate) fn enter(self: &Arc<Self>, now: Timestamp) -> Option<BreakerPermit> {
        if !self.gate.change(|health| health.enter(now, self.user)) {
            return None;
        }
        // If the host's breaker refuses, `entry` is dropped, which withdraws the call from the provider's breaker.
        let entry = BreakerPermit { path: Arc::clone(self), reported: false };
        let is_let_through = self.host.as_ref().is_none_or(|(_, host)| locked(host).enter(now, self.user));
        is_let_through.then_some(entry)
    }

    /// Reserves one concurrent call for the user and the host, or returns how long to wait before the next try. See
    /// [`Shares::take`].
    pub(crate) async fn share(
        &self,
        lane: Lane,
        may_claim_ahead: bool,
        latest: Instant,
    ) -> Result<Share, Duration> {
        let now = clock::now();
        let host = self.host.as_ref().map(|(name, health)| (name.as_str(), locked(health).is_proven(now)));
        Shares::take(of_lane(&self.gate.shares, lane), self.user, host, may_claim_ahead, latest).await
    }

    /// Reports an answer to the breakers. If the target names a host, the answer counts for the host. The provider's breaker
    /// then counts only a success or a problem with the account.
    fn report(&self, answer: &Answer, now: Timestamp) {
        let Some((_, host)) = &self.host else {
            return self.gate.change(|health| health.report(answer, now, self.user));
        };
        if answer.blame == Blame::Usual && answer.outcome == Outcome::PauseProvider {
            locked(host).leave(now, self.user);
            return self.gate.change(|health| health.report(answer, now, self.user));
        }
        locked(host).report(answer, now, self.user);
        match answer.outcome {
            Outcome::Sent { .. } => self.gate.change(|health| health.report(answer, now, self.user)),
            _ => self.gate.change(|health| health.leave(now, self.user)),
        }
    }

    fn leave(&self, now: Timestamp) {
        if let Some((_, host)) = &self.host {
            locked(host).leave(now, self.user);
        }
        self.gate.change(|health| health.leave(now, self.user));
    }
}

/// A call that the breakers admitted. Dropping it without a report means that the call was not made.
pub(crate) struct BreakerPermit {
    path: Arc<TargetPath>,
    reported: bool,
}

impl BreakerPermit {
    /// Reports the answer to the breakers, and the duration of the call.
    pub(crate) fn report(mut self, answer: &Answer, took: Duration) {
        self.reported = true;
        self.path.gate.pace.record(took);
        self.path.report(answer, clock::now());
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if !self.reported {
            self.path.leave(clock::now());
        }
    }
}

fn of_lane<T>([transactional, bulk]: &[T; 2], lane: Lane) -> &T {
    match lane {
        Lane::Transactional => transactional,
        Lane::Bulk => bulk,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
