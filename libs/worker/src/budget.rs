use std::convert::Infallible;
use std::future::pending;
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
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};

use crate::jobs_in_hand::JobInHand;
use crate::lane::Job;
use crate::provider::UsableProvider;
use crate::refusal::Refusal;
use crate::shares::{Share, Shares};
use crate::slots::{Pace, Rate, Slot, Slots};

const MAX_PROVIDERS: u64 = 10_000;
const MAX_HOSTS: u64 = 10_000;
const IDLE: Duration = Duration::from_secs(3_600);
/// Maximum time for which a job waits for a busy provider, before its claim or after it. While it waits, the job occupies one of
/// the lane's slots for concurrent jobs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct CallBudgets {
    channel: Channel,
    /// Concurrent calls to one provider in one lane.
    calls: usize,
    /// The version is part of the key because failures with an old credential say nothing about a new one.
    known: Cache<(AppId, String, i64), Arc<ProviderLimits>>,
    hosts: Cache<(AppId, String, i64, String), Arc<Mutex<Health>>>,
}

struct ProviderLimits {
    channel: Channel,
    app: AppId,
    identifier: String,
    health: Mutex<Health>,
    rate: Option<Rate>,
    pace: Pace,
    slots: [Arc<Slots>; 2],
    shares: [Arc<Shares>; 2],
}

pub(crate) struct CallBudget {
    limits: Arc<ProviderLimits>,
    host: Option<(String, Arc<Mutex<Health>>)>,
    user: UserNumber,
    lane: Lane,
}

/// Resources of one call. Dropping the guard releases them; without a report, the call counts as not made.
#[derive(Default)]
pub(crate) struct CallGuard {
    /// None after the report.
    budget: Option<Arc<CallBudget>>,
    reserved: Option<(Slot, Share)>,
    lane: Option<OwnedSemaphorePermit>,
}

impl CallBudgets {
    /// Each provider may use three quarters of a lane's concurrent attempts. If a provider hangs, the rest stays available to the other
    /// providers until the breaker of that provider opens.
    pub(crate) fn new(channel: Channel, max_concurrency: usize) -> CallBudgets {
        let known = Cache::builder().max_capacity(MAX_PROVIDERS).time_to_idle(IDLE).build();
        let hosts = Cache::builder().max_capacity(MAX_HOSTS).time_to_idle(IDLE).build();
        CallBudgets { channel, calls: (max_concurrency * 3).div_ceil(4).max(1), known, hosts }
    }

    pub(crate) async fn of(
        &self,
        usable: &UsableProvider,
        host: Option<&str>,
        job: &Job<'_>,
    ) -> Arc<CallBudget> {
        let provider = &usable.provider;
        let key = (provider.app, provider.identifier.clone(), provider.version);
        let limits = self.known.get_with(key, async { Arc::new(self.limits(usable)) }).await;
        let host = match host {
            Some(host) => {
                let key = (provider.app, provider.identifier.clone(), provider.version, host.to_owned());
                Some((host.to_owned(), self.hosts.get_with(key, async { Arc::default() }).await))
            }
            None => None,
        };
        Arc::new(CallBudget { limits, host, user: job.order.user, lane: job.lane })
    }

    fn limits(&self, UsableProvider { provider, max_per_second }: &UsableProvider) -> ProviderLimits {
        ProviderLimits {
            channel: self.channel,
            app: provider.app,
            identifier: provider.identifier.clone(),
            health: Mutex::default(),
            rate: max_per_second.map(Rate::new),
            pace: Pace::default(),
            slots: [(); 2].map(|()| Slots::new(self.calls)),
            shares: [(); 2].map(|()| Arc::new(Shares::of(self.calls))),
        }
    }
}

impl ProviderLimits {
    /// True if calls are short and no rate limit counts the calls when they are admitted.
    fn may_claim_ahead(&self) -> bool {
        self.rate.is_none() && self.pace.is_short()
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
            let failure = health.failure();
            let code = failure.map(|failure| failure.code.as_str());
            let message = failure.map(|failure| failure.message.as_str());
            match *health.breaker() {
                Breaker::Open { until, .. } => {
                    tracing::warn!(%app, provider, %until, code, message, "the provider's circuit breaker opened; not calling the provider for now");
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

impl CallBudget {
    /// Time at which to check again. None if a call is admitted now.
    pub(crate) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let of_host = self.host.as_ref().and_then(|(_, host)| locked(host).closed_until(now, self.user));
        locked(&self.limits.health).closed_until(now, self.user).max(of_host)
    }

    /// Code of the failure because of which the host's or the provider's breaker is open.
    pub(crate) fn failure_code(&self) -> Option<String> {
        let code = |health: &Mutex<Health>| {
            let health = locked(health);
            let is_open = health.breaker().level() > 0;
            health.failure().filter(|_| is_open).map(|failure| failure.code.clone())
        };
        let of_host = self.host.as_ref().and_then(|(_, host)| code(host));
        of_host.or_else(|| code(&self.limits.health))
    }

    pub(crate) fn enter(self: &Arc<Self>, now: Timestamp) -> Option<CallGuard> {
        if !self.limits.change(|health| health.enter(now, self.user)) {
            return None;
        }
        // If the host's breaker refuses, `guard` is dropped, which withdraws the call from the provider's breaker.
        let guard = CallGuard { budget: Some(Arc::clone(self)), reserved: None, lane: None };
        let is_let_through = self.host.as_ref().is_none_or(|(_, host)| locked(host).enter(now, self.user));
        is_let_through.then_some(guard)
    }

    /// Waits until `patience` if the host or the provider is busy.
    async fn reserve(&self, patience: Instant) -> Result<(Slot, Share), Refusal> {
        let limits = &self.limits;
        // If the user's share is used up, do not wait: jobs of one user that wait for each other could fill the lane. For the same
        // reason, wait only briefly for a host while calls to it are under way.
        let share = self.share(patience).await.map_err(|pause| Refusal::after(pause, "share"))?;
        // The calls of a slow provider end after minutes. A job that waited for one of them would take the place of jobs of other apps.
        let slots = of_lane(&limits.slots, self.lane);
        if let Some(pause) = slots.turn_away_if_stuck() {
            return Err(Refusal::after(pause, "slow"));
        }
        let slot = call_slot(slots, &share, limits.may_claim_ahead());
        let slot = timeout_at(patience, slot).await.map_err(|_| Refusal::busy())?;
        if let Some(rate) = &limits.rate {
            while let Err(pause) = rate.take() {
                if Instant::now() + pause > patience {
                    return Err(Refusal::rate_limited(rate.next_free_time(clock::now())));
                }
                sleep(pause).await;
            }
        }
        Ok((slot, share))
    }

    async fn share(&self, latest: Instant) -> Result<Share, Duration> {
        let now = clock::now();
        let host = self.host.as_ref().map(|(name, health)| (name.as_str(), locked(health).is_proven(now)));
        let shares = of_lane(&self.limits.shares, self.lane);
        Shares::take(shares, self.user, host, self.limits.may_claim_ahead(), latest).await
    }

    /// Reports an answer. If the target names a host, the answer counts for the host; the provider's breaker then counts only a success or
    /// a problem with the account.
    fn report(&self, answer: &Answer, now: Timestamp) {
        let Some((_, host)) = &self.host else {
            return self.limits.change(|health| health.report(answer, now, self.user));
        };
        if answer.blame == Blame::Usual && answer.outcome == Outcome::PauseProvider {
            locked(host).leave(now, self.user);
            return self.limits.change(|health| health.report(answer, now, self.user));
        }
        locked(host).report(answer, now, self.user);
        match answer.outcome {
            Outcome::Sent { .. } => self.limits.change(|health| health.report(answer, now, self.user)),
            _ => self.limits.change(|health| health.leave(now, self.user)),
        }
    }

    fn leave(&self, now: Timestamp) {
        if let Some((_, host)) = &self.host {
            locked(host).leave(now, self.user);
        }
        self.limits.change(|health| health.leave(now, self.user));
    }
}

/// A delivery that has to wait for its host must not occupy a slot meanwhile.
async fn call_slot(slots: &Arc<Slots>, share: &Share, may_claim_ahead: bool) -> Slot {
    let mut slot = Slot::of(slots);
    if share.is_ahead() {
        slot.reserve_ahead().await;
    } else {
        slot.reserve(may_claim_ahead).await;
    }
    slot
}

impl CallGuard {
    pub(crate) async fn reserve(&mut self, patience: Instant) -> Result<(), Refusal> {
        if let Some(budget) = &self.budget {
            let reserved = budget.reserve(patience).await;
            self.reserved = Some(reserved.map_err(|refusal| refusal.of(&budget.limits.identifier))?);
        }
        Ok(())
    }

    /// Returns false if the host, the provider or the lane has become too slow.
    pub(crate) async fn start(&mut self, job: &JobInHand, latest: Instant) -> bool {
        if let Some((slot, share)) = &mut self.reserved {
            if !share.start(latest).await {
                return false;
            }
            if !slot.start(latest).await {
                if let Some(budget) = &self.budget {
                    budget.limits.pace.record(PATIENCE);
                }
                return false;
            }
        }
        self.lane = job.call_of_lane(latest).await;
        if let (Some(_), Some((_, share))) = (&self.lane, &mut self.reserved) {
            share.begin_call();
        }
        self.lane.is_some()
    }

    pub(crate) async fn leave_lane_after(
        &mut self,
        long: Duration,
        job: &mut JobInHand,
        app: AppId,
    ) -> Infallible {
        job.leave_lane_after(long, app).await;
        self.lane = None;
        if let Some((slot, _)) = &mut self.reserved {
            slot.become_long();
        }
        pending().await
    }

    pub(crate) fn report(&mut self, answer: &Answer, took: Duration) {
        if let Some(budget) = self.budget.take() {
            budget.limits.pace.record(took);
            budget.report(answer, clock::now());
        }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.leave(clock::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn deliveries_that_wait_for_their_host_leave_call_slots_to_other_hosts() {
        let (shares, slots) = (Arc::new(Shares::of(4)), Slots::new(4));
        let reserve = async |user, host| {
            let latest = Instant::now() + PATIENCE;
            let share =
                Shares::take(&shares, UserNumber(user), Some((host, true)), true, latest).await.unwrap();
            let slot = call_slot(&slots, &share, true).await;
            (share, slot)
        };
        let mut held = Vec::new();
        for user in 1..=5 {
            held.push(reserve(user, "https://push.example").await);
        }
        held.push(reserve(6, "https://other.example").await);
        let is_ahead: Vec<bool> = held.iter().map(|(_, slot)| slot.is_ahead()).collect();
        assert_eq!(is_ahead, [false, false, false, true, true, false]);
    }
}
