//! Bounds on the calls of a provider: its breaker, its limit of calls per second, its share of a lane, and the shares that
//! one user and one host that targets name have of that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::breaker::Breaker;
use domain::health::Health;
use domain::outcome::Blame;
use domain::pace::Pace;
use domain::{Answer, AppId, Channel, Lane, Outcome, Timestamp, UserNumber};
use metrics::gauge;
use moka::future::Cache;
use service_kit::clock;
use service_kit::metrics::PROVIDER_BREAKER;
use tokio::sync::Semaphore;

use crate::provider::Usable;
use crate::shares::{Share, Shares};

/// Providers whose state is kept at once.
const MAX_PROVIDERS: u64 = 10_000;
/// Hosts named by targets whose state is kept at once. One that is forgotten counts as healthy.
const MAX_HOSTS: u64 = 10_000;
/// After which an unused provider or host is forgotten.
const IDLE: Duration = Duration::from_secs(3_600);

/// The gates of the providers that this process calls.
pub(crate) struct Gates {
    channel: Channel,
    share: usize,
    /// By version: what was learnt of an old credential says nothing of a new one.
    known: Cache<(AppId, String, i64), Arc<Gate>>,
    /// Hosts that targets name, each as one provider knows it.
    hosts: Cache<(AppId, String, i64, String), Arc<Mutex<Health>>>,
}

/// The way to one provider.
pub(crate) struct Gate {
    channel: Channel,
    app: AppId,
    identifier: String,
    health: Mutex<Health>,
    pace: Option<Mutex<Pace>>,
    /// Calls that each lane may make at the same time.
    slots: [Arc<Semaphore>; 2],
    /// What users and hosts have of each lane's.
    shares: [Arc<Shares>; 2],
}

/// The way to one target: through a provider, to a host of the target's choice if it names one.
pub(crate) struct Way {
    pub(crate) gate: Arc<Gate>,
    host: Option<(String, Arc<Mutex<Health>>)>,
    user: UserNumber,
}

impl Gates {
    /// Each provider may have three quarters of a lane's attempts under way: one that hangs leaves the others room,
    /// until its breaker opens.
    pub(crate) fn new(channel: Channel, max_concurrency: usize) -> Gates {
        let known = Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build();
        let hosts = Cache::builder().max_capacity(MAX_HOSTS).time_to_idle(IDLE).build();
        Gates { channel, share: (max_concurrency * 3).div_ceil(4).max(1), known, hosts }
    }

    /// The way of one user's delivery through a provider, to the host that its target names.
    pub(crate) async fn way(&self, usable: &Usable, host: Option<&str>, user: UserNumber) -> Way {
        let gate = self.of(usable).await;
        let host = match host {
            Some(host) => {
                let Usable { provider, .. } = usable;
                let key = (provider.app, provider.identifier.clone(), provider.version, host.to_owned());
                Some((host.to_owned(), self.hosts.get_with(key, async { Arc::default() }).await))
            }
            None => None,
        };
        Way { gate, host, user }
    }

    async fn of(&self, usable: &Usable) -> Arc<Gate> {
        let provider = &usable.provider;
        let key = (provider.app, provider.identifier.clone(), provider.version);
        let gate = async {
            Arc::new(Gate {
                channel: self.channel,
                app: provider.app,
                identifier: provider.identifier.clone(),
                health: Mutex::default(),
                pace: usable.max_per_second.map(|limit| Mutex::new(Pace::new(limit))),
                slots: [(); 2].map(|()| Arc::new(Semaphore::new(self.share))),
                shares: [(); 2].map(|()| Arc::new(Shares::of(self.share))),
            })
        };
        self.known.get_with(key, gate).await
    }
}

impl Gate {
    pub(crate) fn slots(&self, lane: Lane) -> Arc<Semaphore> {
        let [transactional, bulk] = &self.slots;
        Arc::clone(match lane {
            Lane::Transactional => transactional,
            Lane::Bulk => bulk,
        })
    }

    fn shares(&self, lane: Lane) -> &Arc<Shares> {
        let [transactional, bulk] = &self.shares;
        match lane {
            Lane::Transactional => transactional,
            Lane::Bulk => bulk,
        }
    }

    /// Takes up a call of those that a second may bring; where there is none left, how long that will take.
    pub(crate) fn take(&self, now: Timestamp) -> Result<(), Duration> {
        self.pace.as_ref().map_or(Ok(()), |pace| locked(pace).take(now))
    }

    /// When a job that found no call left should come again.
    pub(crate) fn promise(&self, now: Timestamp) -> Timestamp {
        self.pace.as_ref().map_or(now, |pace| locked(pace).promise(now))
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
                    tracing::warn!(%app, provider, %until, "the provider is left alone");
                }
                Breaker::Closed { .. } => tracing::info!(%app, provider, "the provider is called again"),
                Breaker::HalfOpen { .. } => tracing::debug!(%app, provider, "the provider is tried"),
            }
        }
        result
    }
}

impl Way {
    /// Returns until when neither the provider nor the host lets a call through, or None if both do now.
    pub(crate) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let of_host = self.host.as_ref().and_then(|(_, host)| locked(host).closed_until(now, self.user));
        locked(&self.gate.health).closed_until(now, self.user).max(of_host)
    }

    /// Passes the breakers, if both let a call through.
    pub(crate) fn enter(self: &Arc<Self>, now: Timestamp) -> Option<Entry> {
        if !self.gate.change(|health| health.enter(now, self.user)) {
            return None;
        }
        // From here on a refusal of the host gives back what the provider granted.
        let entry = Entry { way: Arc::clone(self), reported: false };
        let is_let_through = self.host.as_ref().is_none_or(|(_, host)| locked(host).enter(now, self.user));
        is_let_through.then_some(entry)
    }

    /// Takes a place among the calls of the user and the host in a lane, or returns how long to wait for one.
    pub(crate) fn share(&self, lane: Lane, now: Timestamp) -> Result<Share, Duration> {
        let host = self.host.as_ref().map(|(name, health)| (name.as_str(), locked(health).is_proven(now)));
        Shares::take(self.gate.shares(lane), self.user, host)
    }

    /// An answer to a target at a host of its own choice speaks of that host; of the provider only what was wrong before
    /// any host was asked.
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

/// A call that the breakers let through. One that is dropped without a report was not made.
pub(crate) struct Entry {
    way: Arc<Way>,
    reported: bool,
}

impl Entry {
    /// Reports the answer to the breakers.
    pub(crate) fn report(mut self, answer: &Answer) {
        self.reported = true;
        self.way.report(answer, clock::now());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.reported {
            self.way.leave(clock::now());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
