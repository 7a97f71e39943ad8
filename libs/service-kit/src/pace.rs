//! Spacing of rounds. A loop that each message wakes does a round for each: its transactions and requests then cost several times as
//! much a message as in large batches. Spaced rounds carry all that arrived meanwhile, and a message after a pause is not delayed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    next: Instant,
}

impl Pace {
    #[must_use]
    pub fn new(interval: Duration) -> Pace {
        Pace { interval, next: Instant::now() }
    }

    /// Notes that a round begins.
    pub fn begin(&mut self) {
        self.next = Instant::now() + self.interval;
    }

    /// Waits until `interval` after the beginning of the last round.
    pub async fn ready(&self) {
        sleep_until(self.next).await;
    }
}
