//! Recent mean duration of calls or attempts. While they are short, more of them are prepared in advance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Claims per concurrent call while calls are short. A larger batch of claims costs the database less for each.
pub(crate) const AHEAD: usize = 4;
/// Mean duration below which calls count as short. A claim then waits up to about four times as long for its call.
const SHORT: Duration = Duration::from_millis(50);
/// Value without any measurement.
const UNKNOWN: u64 = u64::MAX;
/// Weight of the previous mean against one new duration.
const WEIGHT: u64 = 15;

/// Mean duration, in microseconds. Recent durations count more.
#[derive(Debug)]
pub(crate) struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Self {
        Pace(AtomicU64::new(UNKNOWN))
    }
}

impl Pace {
    pub(crate) fn record(&self, took: Duration) {
        let micros =
            u64::try_from(took.as_micros()).unwrap_or(UNKNOWN / (WEIGHT + 1)).min(UNKNOWN / (WEIGHT + 1));
        let mean = |before| {
            let after = if before == UNKNOWN { micros } else { (before * WEIGHT + micros) / (WEIGHT + 1) };
            Some(after)
        };
        // The closure always returns a value, so the update cannot fail.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mean).ok();
    }

    /// Returns false as long as nothing was measured.
    pub(crate) fn is_short(&self) -> bool {
        u128::from(self.0.load(Ordering::Relaxed)) < SHORT.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_call_ends_the_short_pace_and_short_calls_restore_it() {
        let pace = Pace::default();
        assert!(!pace.is_short());
        pace.record(Duration::from_millis(5));
        assert!(pace.is_short());
        pace.record(Duration::from_secs(18));
        assert!(!pace.is_short());
        for _ in 0..80 {
            pace.record(Duration::from_millis(5));
        }
        assert!(pace.is_short());
        pace.record(Duration::MAX);
        pace.record(Duration::MAX);
        assert!(!pace.is_short());
    }
}
