//! Pace of a client.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::speed::HEADROOM;

/// Maximum factor by which a client that fell behind is faster than planned. A fault can hold up all clients; even then, their load
/// must stay below the capacity that the run requires.
const CATCHING_UP: f64 = 1.4;
const _: () = assert!(CATCHING_UP < HEADROOM);

/// Steps at a fixed interval. After a delay, the interval is shorter until no step is overdue.
pub(super) struct Pace {
    interval: Duration,
    /// Time of the next step according to the plan.
    planned: Instant,
    /// Earliest time of the next step.
    earliest: Instant,
}

impl Pace {
    pub(super) fn new(from: Instant, interval: Duration) -> Pace {
        Pace { interval, planned: from, earliest: from }
    }

    /// Waits until the next step.
    pub(super) async fn step(&mut self) {
        sleep_until(self.next()).await;
        self.note_step(Instant::now());
    }

    fn next(&self) -> Instant {
        self.planned.max(self.earliest)
    }

    fn note_step(&mut self, now: Instant) {
        self.planned += self.interval;
        self.earliest = now + self.interval.div_f64(CATCHING_UP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_steps_follow_at_a_shorter_interval() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin, Duration::from_millis(140));
        let mut steps = Vec::new();
        for number in 0..10 {
            let held_up_until = if number == 2 { begin + Duration::from_millis(500) } else { begin };
            let step = pace.next().max(held_up_until);
            steps.push((step - begin).as_millis());
            pace.note_step(step);
        }
        assert_eq!(steps, [0, 140, 500, 600, 700, 800, 900, 1_000, 1_120, 1_260]);
    }
}
