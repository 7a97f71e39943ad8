//! Limits of the calls to a provider: how many run at the same time, and how many start in a second.

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Claims per concurrent call while calls are short. A larger batch of claims costs the database less for each.
pub(crate) const AHEAD: usize = 4;
/// Mean duration of a short call. A claim waits up to about four times as long for its call.
const SHORT: Duration = Duration::from_millis(50);
/// Mean before the first measurement. About twenty short durations have to follow.
const INITIAL: Duration = Duration::from_millis(200);
const WEIGHT: u64 = 15;
/// Pause of a delivery refused because every slot is in use and at least one call is long.
const STUCK_PAUSE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(120)];
/// Patience while calls to the host are under way; most calls end earlier.
pub(crate) const HOST_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    calls: Arc<Semaphore>,
    /// A permit for each claim that waits for one of `calls`.
    ahead: Arc<Semaphore>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Calls that have started and not ended.
    under_way: usize,
    called_since: Option<Instant>,
    long: usize,
    /// A claimed delivery has waited too long for a call, and no call has ended since.
    is_slow: bool,
    /// Deliveries refused since a slot was last free.
    turned_away: usize,
}

#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    permit: Option<OwnedSemaphorePermit>,
    is_ahead: bool,
    is_called: bool,
    is_long: bool,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Arc<Slots> {
        let [calls, ahead] = [most, (AHEAD - 1) * most].map(|permits| Arc::new(Semaphore::new(permits)));
        Arc::new(Slots { most, calls, ahead, progress: Mutex::default() })
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.progress().is_slow
    }

    /// Returns the pause of the refused delivery.
    pub(crate) fn turn_away(&self, pauses: [Duration; 2]) -> Duration {
        let mut progress = self.progress();
        progress.turned_away += 1;
        pause(progress.turned_away, self.most, pauses)
    }

    pub(crate) fn turn_away_if_stuck(&self) -> Option<Duration> {
        let mut progress = self.progress();
        if self.calls.available_permits() > 0 || progress.long == 0 {
            progress.turned_away = 0;
            return None;
        }
        drop(progress);
        Some(self.turn_away(STUCK_PAUSE))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub(crate) fn of(slots: &Arc<Slots>) -> Slot {
        Slot { slots: Arc::clone(slots), permit: None, is_ahead: false, is_called: false, is_long: false }
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// With `may_claim_ahead`, takes a slot only if one is free now: slots that become free later go to claimed deliveries.
    pub(crate) async fn reserve(&mut self, may_claim_ahead: bool) {
        if !may_claim_ahead {
            self.permit = acquired(&self.slots.calls).await;
        } else if let Ok(call) = Arc::clone(&self.slots.calls).try_acquire_owned() {
            self.permit = Some(call);
        } else {
            self.reserve_ahead().await;
        }
    }

    pub(crate) async fn reserve_ahead(&mut self) {
        self.permit = acquired(&self.slots.ahead).await;
        self.is_ahead = true;
    }

    /// False if the wait would pass `latest`; waits only briefly while calls are under way.
    pub(crate) async fn reserve_until(&mut self, latest: Instant, may_claim_ahead: bool) -> bool {
        let slots = Arc::clone(&self.slots);
        {
            let mut reserving = pin!(self.reserve(may_claim_ahead));
            let mut until = latest.min(Instant::now() + HOST_PATIENCE);
            while timeout_at(until, &mut reserving).await.is_err() {
                let now = Instant::now();
                let next = slots.progress().called_since.unwrap_or(now) + HOST_PATIENCE;
                if until >= latest || next <= now {
                    return false;
                }
                until = next.min(latest);
            }
        }
        if !self.is_ahead {
            slots.progress().turned_away = 0;
        }
        true
    }

    pub(crate) async fn start(&mut self, latest: Instant) -> bool {
        if self.is_ahead {
            let Ok(call) = timeout_at(latest, acquired(&self.slots.calls)).await else {
                self.slots.progress().is_slow = true;
                return false;
            };
            (self.permit, self.is_ahead) = (call, false);
        }
        true
    }

    pub(crate) fn begin_call(&mut self) {
        self.is_called = true;
        let mut progress = self.slots.progress();
        progress.under_way += 1;
        progress.called_since.get_or_insert_with(Instant::now);
    }

    pub(crate) fn become_long(&mut self) {
        self.is_long = true;
        self.slots.progress().long += 1;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut progress = self.slots.progress();
        progress.long -= usize::from(self.is_long);
        if self.is_called {
            progress.is_slow = false;
            progress.under_way -= 1;
            if progress.under_way == 0 {
                progress.called_since = None;
            }
        }
    }
}

async fn acquired(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // The semaphore is never closed.
    Arc::clone(semaphore).acquire_owned().await.ok()
}

pub(crate) fn pause(turned_away: usize, most: usize, [shortest, longest]: [Duration; 2]) -> Duration {
    let rounds = u32::try_from(turned_away.div_ceil(most)).unwrap_or(u32::MAX);
    shortest.saturating_mul(rounds).min(longest)
}

/// Recent mean duration, in microseconds.
#[derive(Debug)]
pub(crate) struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Self {
        Pace(AtomicU64::new(micros(INITIAL)))
    }
}

impl Pace {
    pub(crate) fn record(&self, took: Duration) {
        let mean = |before: u64| Some((before * WEIGHT + micros(took)) / (WEIGHT + 1));
        // The closure always returns a value, so the update cannot fail.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mean).ok();
    }

    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) < micros(SHORT)
    }
}

/// Limited to a day, so that a mean can be calculated.
fn micros(duration: Duration) -> u64 {
    const DAY: u64 = 24 * 60 * 60 * 1_000_000;
    u64::try_from(duration.as_micros()).map_or(DAY, |micros| micros.min(DAY))
}

const NEAREST: Duration = Duration::from_secs(1);
const FARTHEST: Duration = Duration::from_secs(3_600);

/// Rate limit of a provider in calls per second, which is also the burst size.
pub(crate) struct Rate<C: Clock = DefaultClock> {
    limiter: RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<C::Instant>>,
    /// Microseconds per call.
    interval: u64,
    /// Time to which the last call was postponed, in microseconds since the epoch.
    promised_at: Mutex<u64>,
}

impl Rate {
    pub(crate) fn new(per_second: u32) -> Rate {
        Rate::with_clock(per_second, DefaultClock::default())
    }
}

impl<C: Clock> Rate<C> {
    fn with_clock(per_second: u32, clock: C) -> Rate<C> {
        let per_second = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
        let limiter = RateLimiter::direct_with_clock(Quota::per_second(per_second), clock);
        Rate { limiter, interval: 1_000_000 / u64::from(per_second.get()), promised_at: Mutex::new(0) }
    }

    /// The error is the time until the next token.
    pub(crate) fn take(&self) -> Result<(), Duration> {
        self.limiter.check().map_err(|refusal| refusal.wait_time_from(self.limiter.clock().now()))
    }

    /// Time to which to postpone a call. Postponed calls get different times, so that they are not all retried at once.
    pub(crate) fn next_free_time(&self, now: Timestamp) -> Timestamp {
        let mut promised_at = self.promised_at.lock().unwrap_or_else(PoisonError::into_inner);
        *promised_at = (*promised_at).max(epoch_micros(now + NEAREST)) + self.interval;
        *promised_at = (*promised_at).min(epoch_micros(now + FARTHEST));
        Timestamp::from_millis(i64::try_from(*promised_at / 1_000).unwrap_or(i64::MAX))
    }
}

fn epoch_micros(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use governor::clock::FakeRelativeClock;

    use super::*;

    async fn reserved(slots: &Arc<Slots>, may_claim_ahead: bool) -> Slot {
        let mut slot = Slot::of(slots);
        slot.reserve(may_claim_ahead).await;
        slot
    }

    #[tokio::test]
    async fn no_delivery_waits_for_a_slot_while_calls_take_long_and_pauses_grow() {
        let slots = Slots::new(2);
        let mut held = vec![reserved(&slots, false).await, reserved(&slots, false).await];
        assert_eq!(slots.turn_away_if_stuck(), None, "the calls may end soon");
        let mut long = held.remove(0);
        long.become_long();
        let pauses: Vec<_> = (0..400).filter_map(|_| slots.turn_away_if_stuck()).collect();
        assert_eq!(pauses[..3], [1, 1, 2].map(Duration::from_secs));
        assert!(pauses.is_sorted() && pauses[399] == STUCK_PAUSE[1]);
        held.pop();
        assert_eq!(slots.turn_away_if_stuck(), None, "a slot is free");
        held.push(reserved(&slots, false).await);
        assert_eq!(slots.turn_away_if_stuck(), Some(STUCK_PAUSE[0]));
        drop(long);
        assert_eq!(slots.turn_away_if_stuck(), None);
    }

    #[tokio::test]
    async fn a_claimed_delivery_gets_a_free_slot_before_those_that_wait_for_their_claim() {
        let slots = Slots::new(1);
        let call = reserved(&slots, true).await;
        let mut claimed = Vec::new();
        while let Some(slot) = reserved(&slots, true).now_or_never() {
            claimed.push(slot);
        }
        assert_eq!(claimed.len(), AHEAD - 1);
        let mut unclaimed = Box::pin(reserved(&slots, true));
        assert!(unclaimed.as_mut().now_or_never().is_none());
        drop(call);
        assert!(unclaimed.as_mut().now_or_never().is_none());
        assert!(claimed[0].start(Instant::now()).await);
        assert!(unclaimed.await.is_ahead(), "the first claim has left its place");
    }

    #[test]
    fn a_hanging_call_ends_the_short_pace_and_short_calls_restore_it() {
        let pace = Pace::default();
        let short_after = || {
            (1..1_000).find(|_| {
                pace.record(Duration::from_millis(5));
                pace.is_short()
            })
        };
        assert!(!pace.is_short());
        assert_eq!(short_after(), Some(23));
        pace.record(Duration::from_secs(18));
        assert!(!pace.is_short());
        assert_eq!(short_after(), Some(51));
        pace.record(Duration::MAX);
        pace.record(Duration::MAX);
        assert!(!pace.is_short());
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    #[test]
    fn no_more_than_the_limit_passes_in_any_second() {
        for limit in [1, 3, 50, 1_000] {
            let clock = FakeRelativeClock::default();
            let rate = Rate::with_clock(limit, clock.clone());
            let is_taken = |_: &i64| {
                let taken = rate.take().is_ok();
                clock.advance(MILLISECOND);
                taken
            };
            let taken: Vec<i64> = (0..10_000).filter(is_taken).collect();
            let later = |from: i64| taken.iter().filter(|ms| (from..from + 1_000).contains(*ms)).count();
            assert!((1_000..9_000).all(|from| later(from) <= limit as usize + 1), "{limit}");
            let all = 10 * limit as usize;
            assert!(
                taken.len() >= all - 1 && taken.len() <= all + limit as usize,
                "{limit}: {}",
                taken.len()
            );
        }
    }

    #[test]
    fn a_seconds_worth_passes_at_once_and_the_next_call_gets_its_waiting_time() {
        let clock = FakeRelativeClock::default();
        let rate = Rate::with_clock(4, clock.clone());
        assert!((0..4).all(|_| rate.take().is_ok()));
        assert_eq!(rate.take(), Err(Duration::from_millis(250)));
        clock.advance(Duration::from_millis(250));
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
    }

    #[test]
    fn postponed_calls_return_one_by_one_within_an_hour() {
        let rate = Rate::new(2);
        let promised: Vec<_> = (0..3).map(|_| rate.next_free_time(at(0))).collect();
        assert_eq!(promised, [at(1_500), at(2_000), at(2_500)]);
        assert_eq!(rate.next_free_time(at(10_000)), at(11_500), "past times do not delay new calls");
        let last = (0..10_000).map(|_| rate.next_free_time(at(0))).last().unwrap();
        assert_eq!(last, at(3_600_000));
    }
}
