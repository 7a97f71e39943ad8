//! What keeps calls of a provider within bounds: its breaker, its limit of calls a second, and its share of a lane.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::breaker::Breaker;
use domain::pace::Pace;
use domain::{AppId, Channel, Lane, Outcome, Timestamp};
use metrics::gauge;
use moka::future::Cache;
use service_kit::clock;
use service_kit::metrics::PROVIDER_BREAKER;
use tokio::sync::Semaphore;

use crate::provider::Usable;

/// Providers whose state is kept at once.
const MAX_PROVIDERS: u64 = 10_000;
/// After which a provider that nobody calls is forgotten.
const IDLE: Duration = Duration::from_secs(3_600);

/// The gates of the providers that this process calls.
pub(crate) struct Gates {
    channel: Channel,
    share: usize,
    /// By version: what was learnt of an old credential says nothing of a new one.
    known: Cache<(AppId, String, i64), Arc<Gate>>,
}

/// The way to one provider.
pub(crate) struct Gate {
    channel: Channel,
    app: AppId,
    identifier: String,
    breaker: Mutex<Breaker>,
    pace: Option<Mutex<Pace>>,
    /// Calls that each lane may make at the same time.
    slots: [Arc<Semaphore>; 2],
}

impl Gates {
    /// Each provider may have three quarters of a lane's attempts under way: one that hangs leaves the others room,
    /// until its breaker opens.
    pub(crate) fn new(channel: Channel, max_concurrency: usize) -> Gates {
        let known = Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build();
        Gates { channel, share: (max_concurrency * 3).div_ceil(4).max(1), known }
    }

    pub(crate) async fn of(&self, usable: &Usable) -> Arc<Gate> {
        let provider = &usable.provider;
        let key = (provider.app, provider.identifier.clone(), provider.version);
        let gate = async {
            Arc::new(Gate {
                channel: self.channel,
                app: provider.app,
                identifier: provider.identifier.clone(),
                breaker: Mutex::default(),
                pace: usable.max_per_second.map(|limit| Mutex::new(Pace::new(limit))),
                slots: [(); 2].map(|()| Arc::new(Semaphore::new(self.share))),
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

    /// Takes up a call of those that a second may bring; where there is none left, how long that will take.
    pub(crate) fn take(&self, now: Timestamp) -> Result<(), Duration> {
        self.pace.as_ref().map_or(Ok(()), |pace| locked(pace).take(now))
    }

    /// When a job that found no call left should come again.
    pub(crate) fn promise(&self, now: Timestamp) -> Timestamp {
        self.pace.as_ref().map_or(now, |pace| locked(pace).promise(now))
    }

    pub(crate) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        locked(&self.breaker).closed_until(now)
    }

    /// Passes the breaker, where it lets a call through.
    pub(crate) fn enter(self: &Arc<Self>, now: Timestamp) -> Option<Entry> {
        let is_let_through = self.change(|breaker| breaker.enter(now));
        is_let_through.then(|| Entry { gate: Arc::clone(self), reported: false })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = locked(&self.breaker);
        let before = breaker.level();
        let result = change(&mut breaker);
        let level = breaker.level();
        if level != before {
            let (channel, app) = (self.channel.as_str(), self.app.to_string());
            let provider = self.identifier.clone();
            gauge!(PROVIDER_BREAKER, "channel" => channel, "app" => app, "provider" => provider)
                .set(f64::from(level));
            let (app, provider) = (self.app, &self.identifier);
            match *breaker {
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

/// A call that the breaker let through. One that is dropped without a report was not made, or told nothing.
pub(crate) struct Entry {
    gate: Arc<Gate>,
    reported: bool,
}

impl Entry {
    /// Tells the breaker what came of the call.
    pub(crate) fn report(mut self, outcome: &Outcome) {
        self.reported = true;
        self.gate.change(|breaker| breaker.report(outcome, clock::now()));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.reported {
            self.gate.change(|breaker| breaker.leave(clock::now()));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
