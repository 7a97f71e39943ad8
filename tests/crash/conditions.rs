//! Conditions of a run that decide how long its work may take.

use std::time::Duration;

use crate::scene::Fault;

/// Lease of a claim at the normal pace, in milliseconds.
pub(crate) const LEASE: i64 = 3_000;
/// Share of the free processor time before the load that must still be free after it. With less, the machine became slower during
/// the run.
const STEADY: f64 = 0.75;
/// Total time of stalls from which the machine counts as slower than at the start of the run, in milliseconds.
const STALLED: i64 = 5_000;

#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    /// Factor by which all times of the run were stretched.
    pub(crate) stretch: f64,
    /// Lease of a claim, in milliseconds.
    pub(crate) lease: i64,
    /// Share of two processors that was free before the load, and after it.
    pub(crate) processors: (f64, f64),
    /// Periods in which the machine did not run the test.
    pub(crate) stalls: Vec<Fault>,
}

impl Default for Conditions {
    /// Conditions on a fast and steady machine.
    fn default() -> Conditions {
        Conditions { stretch: 1.0, lease: LEASE, processors: (1.0, 1.0), stalls: Vec::new() }
    }
}

impl Conditions {
    /// A time limit in milliseconds, stretched for this machine.
    pub(crate) fn stretched(&self, millis: i64) -> i64 {
        (millis as f64 * self.stretch).round() as i64
    }

    pub(crate) fn stretched_time(&self, time: Duration) -> Duration {
        time.mul_f64(self.stretch)
    }

    /// Evidence that the machine became slower during the run, so that missed time limits prove nothing about Tidings.
    pub(crate) fn slowdown(&self) -> Option<String> {
        let (before, after) = self.processors;
        if after < before * STEADY {
            let [before, after] = [before, after].map(|share| share * 100.0);
            return Some(format!(
                "{before:.0} % of two processors were free before the load, only {after:.0} % after it"
            ));
        }
        let stalled: i64 = self.stalls.iter().map(|stall| stall.until - stall.from).sum();
        (stalled >= STALLED)
            .then(|| format!("the machine stalled {} times, for {stalled} ms in total", self.stalls.len()))
    }

    /// Returns true if the machine is too slow for the normal pace, or became slower during the run.
    pub(crate) fn is_slow(&self) -> bool {
        self.stretch > 1.0 || self.slowdown().is_some()
    }
}
