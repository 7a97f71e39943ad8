//! Speed of this machine, beside the speed that the planned load needs. On a slower machine, the run stretches its times. On a
//! machine that is much slower, a run would judge the machine instead of Tidings, so it ends at once.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::conditions::LEASE;

/// Number of processors whose free time is measured.
const PROCESSORS: usize = 2;
/// Duration of one measurement of the processors.
const MEASURED_FOR: Duration = Duration::from_secs(2);
/// Share of two processors that the run needs at its normal pace.
const NEEDED_PROCESSORS: f64 = 0.75;
/// Number of sends per second without faults that the run needs at its normal pace, as a multiple of the sends per second of its
/// load. Clients that catch up, processes that restart and work that is repeated use the difference.
pub(crate) const HEADROOM: f64 = 1.5;
/// Maximum factor by which a run stretches its times. The fixed time limits of the run allow for this factor.
pub(crate) const MOST_STRETCHED: f64 = 3.0;

/// Speed of the machine at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Speed {
    /// Share of the time of two processors that the run can use.
    pub(crate) processors: f64,
    /// Sends per second without faults, from the call of a client to the final status. None before the measurement.
    pub(crate) sends_per_second: Option<f64>,
    /// Sends per second of the load at its normal pace.
    pub(crate) planned_per_second: f64,
}

impl Speed {
    /// Factor by which the processes stretch their leases and time limits. It is known before they start.
    pub(crate) fn patience(self) -> f64 {
        (NEEDED_PROCESSORS / self.processors).max(1.0)
    }

    /// Lease of a claim in this run, in milliseconds.
    pub(crate) fn lease(self) -> i64 {
        (LEASE as f64 * self.patience()).round() as i64
    }

    /// Factor by which the run stretches its times, at least [`patience`](Self::patience); 1 on a machine that is fast enough.
    pub(crate) fn stretch(self) -> f64 {
        let of_sends = self.sends_per_second.map_or(1.0, |sends| HEADROOM * self.planned_per_second / sends);
        of_sends.max(self.patience())
    }

    /// Reason why a run on this machine would mean nothing. None if the machine is fast enough.
    pub(crate) fn too_slow(self) -> Option<String> {
        let is_too_slow = self.stretch() > MOST_STRETCHED;
        is_too_slow.then(|| {
            let (processors, sends) = (NEEDED_PROCESSORS * 100.0, HEADROOM * self.planned_per_second);
            format!(
                "this machine is too slow for the run to mean anything: {self}. At its normal pace, the run needs {processors:.0} % \
                 and {sends:.1} sends per second. It needs at least a third of both. Repeat the run when the machine is less busy, or \
                 on a faster machine"
            )
        })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} % of two processors are free", self.processors * 100.0)?;
        match self.sends_per_second {
            Some(sends) => write!(f, ", and {sends:.1} sends per second are completed without faults"),
            None => Ok(()),
        }
    }
}

/// Measures the share of the time of two processors that this process can use now, in 2 s. Returns 1 if the system does not report
/// the processor time of threads.
pub(crate) async fn free_processors() -> f64 {
    let spinning = (0..PROCESSORS).map(|_| tokio::task::spawn_blocking(spin));
    let shares = futures_util::future::join_all(spinning).await;
    let shares: Option<Vec<f64>> = shares.into_iter().map(Result::unwrap).collect();
    shares.map_or(1.0, |shares| (shares.iter().sum::<f64>() / PROCESSORS as f64).clamp(0.001, 1.0))
}

/// Keeps a processor busy, and returns the share of the time in which the system ran this thread.
fn spin() -> Option<f64> {
    let (began, used) = (Instant::now(), used_by_this_thread()?);
    while began.elapsed() < MEASURED_FOR {
        std::hint::spin_loop();
    }
    let used = used_by_this_thread()?.saturating_sub(used);
    Some(used.as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Processor time of this thread: the first number in `/proc/thread-self/schedstat`, in nanoseconds (proc(5)).
fn used_by_this_thread() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(processors: f64, sends: f64) -> Speed {
        Speed { processors, sends_per_second: Some(sends), planned_per_second: 40.0 }
    }

    #[test]
    fn a_fast_machine_runs_at_the_normal_pace() {
        assert!((speed(1.0, 200.0).stretch() - 1.0).abs() < 1e-9);
        assert!((speed(0.75, 60.0).stretch() - 1.0).abs() < 1e-9);
        assert_eq!(speed(0.75, 60.0).too_slow(), None);
    }

    #[test]
    fn a_machine_that_is_half_as_fast_stretches_the_run() {
        assert!((speed(1.0, 30.0).stretch() - 2.0).abs() < 1e-9);
        assert!((speed(0.5, 200.0).stretch() - 1.5).abs() < 1e-9);
        assert_eq!(speed(0.5, 200.0).lease(), LEASE * 3 / 2);
        assert_eq!(speed(0.5, 30.0).too_slow(), None);
    }

    #[test]
    fn a_machine_that_is_much_too_slow_is_refused_with_the_numbers() {
        let reason = speed(0.5, 10.0).too_slow().unwrap();
        assert!(reason.contains("50 % of two processors are free"), "{reason}");
        assert!(reason.contains("10.0 sends per second are completed"), "{reason}");
        assert!(reason.contains("75 % and 60.0 sends per second"), "{reason}");
        let unmeasured = Speed { processors: 0.2, sends_per_second: None, planned_per_second: 40.0 };
        assert!(unmeasured.too_slow().is_some());
    }

    #[tokio::test]
    async fn the_measured_share_of_the_processors_is_a_share() {
        let share = free_processors().await;
        assert!(share > 0.0 && share <= 1.0, "{share}");
    }
}
