//! Rate limit of a provider in calls per second, which is also the burst size.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

const NEAREST: Duration = Duration::from_secs(1);
const FARTHEST: Duration = Duration::from_secs(3_600);

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
        *promised_at = (*promised_at).max(micros(now + NEAREST)) + self.interval;
        *promised_at = (*promised_at).min(micros(now + FARTHEST));
        Timestamp::from_millis(i64::try_from(*promised_at / 1_000).unwrap_or(i64::MAX))
    }
}

fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

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
