//! A limit of calls a second, by the generic cell rate algorithm: a second's worth may come at once.

use std::time::Duration;

use crate::Timestamp;

/// The farthest ahead that a call is put off.
const FARTHEST: Duration = Duration::from_secs(3_600);
/// The least by which a call is put off.
const NEAREST: Duration = Duration::from_secs(1);

/// How far a provider's limit is used up.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Microseconds that a call takes up.
    interval: u64,
    /// When the calls so far will have been paid for, in microseconds since the epoch.
    paid_at: u64,
    /// When the last call that was put off comes again, likewise.
    promised_at: u64,
}

impl Pace {
    /// So many calls a second.
    #[must_use]
    pub fn new(per_second: u32) -> Pace {
        Pace { interval: 1_000_000 / u64::from(per_second.max(1)), paid_at: 0, promised_at: 0 }
    }

    /// Takes up a call.
    ///
    /// # Errors
    /// Not yet; how long it would have to wait.
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

    /// When a call that is put off should come again: each after the one before, so that they do not all come at once.
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
    fn no_more_than_the_limit_goes_through_in_any_second() {
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
    fn a_second_worth_goes_at_once_and_the_next_one_is_told_how_long_it_waits() {
        let mut pace = Pace::new(4);
        assert!((0..4).all(|_| pace.take(at(0)).is_ok()));
        assert_eq!(pace.take(at(0)), Err(Duration::from_millis(250)));
        assert_eq!(pace.take(at(250)), Ok(()));
        assert!(pace.take(at(250)).is_err());
    }

    #[test]
    fn what_is_put_off_comes_back_one_by_one_and_not_beyond_an_hour() {
        let mut pace = Pace::new(2);
        let promised: Vec<_> = (0..3).map(|_| pace.promise(at(0))).collect();
        assert_eq!(promised, [at(1_500), at(2_000), at(2_500)]);
        assert_eq!(pace.promise(at(10_000)), at(11_500), "the others have come by now");
        let last = (0..10_000).map(|_| pace.promise(at(0))).last().unwrap();
        assert_eq!(last, at(3_600_000));
    }
}
