//! Recent mean duration of calls or attempts. While they are short, more of them are prepared in advance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Claims per concurrent call while calls are short. A larger batch of claims costs the database less for each.
pub(crate) const AHEAD: usize = 4;
/// Mean duration below which calls count as short. A claim then waits up to about four times as long for its call.
const SHORT: Duration = Duration::from_millis(50);
/// The mean before the first measurement. About twenty short durations have to follow.
const INITIAL: Duration = Duration::from_millis(200);
/// Weight of the previous mean against one new duration.
const WEIGHT: u64 = 15;

/// Mean duration, in microseconds. Recent durations count more.
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

/// Microseconds of the duration, at most a day, so that a mean can be calculated.
fn micros(duration: Duration) -> u64 {
    const DAY: u64 = 24 * 60 * 60 * 1_000_000;
    u64::try_from(duration.as_micros()).map_or(DAY, |micros| micros.min(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
