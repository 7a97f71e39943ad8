//! Rate limit in calls per second, by the generic cell rate algorithm; the burst size is the number of calls in one second.

use std::time::Duration;

use crate::Timestamp;

/// Maximum delay of a postponed call.
const FARTHEST: Duration = Duration::from_secs(3_600);
/// Minimum delay of a postponed call.
const NEAREST: Duration = Duration::from_secs(1);

/// State of a provider's rate limit.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Microseconds per call.
    interval: u64,
    /// Theoretical arrival time of the next call (the `TAT` of the algorithm), in microseconds since the epoch.
    paid_at: u64,
    /// Time to which the last call was postponed, in microseconds since the epoch.
    promised_at: u64,
}

impl Pace {
    /// Creates a limit of `per_second` calls per second.
    #[must_use]
    pub fn new(per_second: u32) -> Pace {
        Pace { interval: 1_000_000 / u64::from(per_second.max(1)), paid_at: 0, promised_at: 0 }
    }

    /// Consumes one token of the rate limit.
    ///
    /// # Errors
    /// The time until the next token, if none is left.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        let now = micros(now);
        let start = self.paid_at.max(now);
        let ahead = (start + self.interval).saturating_sub(now);
        if ahead > 1_000_000.max(self.interval) {
            return Err(Duration::from_micros(ahead - 1_000_000.max(self.interval)));
        }
        self.paid_at = start + self.interval;
        Ok(())
    }

    /// Returns the time to which to postpone a call. Postponed calls are spaced out, so that they are not all retried at once.
    pub fn promise(&mut self, now: Timestamp) -> Timestamp {
        let earliest = micros(now + NEAREST);
        let farthest = micros(now + FARTHEST);
        self.promised_at = (self.promised_at.max(earliest) + self.interval).min(farthest);
        Timestamp::from_millis(i64::try_from(self.promised_at / 1_000).unwrap_or(i64::MAX))
    }
}

fn micros(at: Timestamp) -> u64 {
    u64::try_from(at.millis()).unwrap_or_default().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    #[test]
    fn no_more_than_the_limit_passes_in_any_second() {
        for limit in [1, 3, 50, 1_000] {
            let mut pace = Pace::new(limit);
            let taken: Vec<i64> = (0..10_000).filter(|ms| pace.take(at(*ms)).is_ok()).collect();
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
        let mut pace = Pace::new(4);
        assert!((0..4).all(|_| pace.take(at(0)).is_ok()));
        assert_eq!(pace.take(at(0)), Err(Duration::from_millis(250)));
        assert_eq!(pace.take(at(250)), Ok(()));
        assert!(pace.take(at(250)).is_err());
    }

    #[test]
    fn postponed_calls_return_one_by_one_within_an_hour() {
        let mut pace = Pace::new(2);
        let promised: Vec<_> = (0..3).map(|_| pace.promise(at(0))).collect();
        assert_eq!(promised, [at(1_500), at(2_000), at(2_500)]);
        assert_eq!(pace.promise(at(10_000)), at(11_500), "earlier promises still delay new calls");
        let last = (0..10_000).map(|_| pace.promise(at(0))).last().unwrap();
        assert_eq!(last, at(3_600_000));
    }
}
