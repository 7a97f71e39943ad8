//! What a breaker has to do, said once more: held against what the breaker lets through.

use std::time::Duration;

use domain::{Outcome, Timestamp};

/// Failures in a row, after which a provider is left alone.
const RUN: u32 = 10;
const FIRST_REST: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(300);
/// After which another trial may be made.
const TRIAL: Duration = Duration::from_secs(120);

/// What was seen of a provider by one worker.
#[derive(Debug, Default)]
pub(crate) struct BreakerWatch {
    failures: u32,
    rests: u32,
    resting_until: Option<Timestamp>,
    trial_since: Option<Timestamp>,
}

impl BreakerWatch {
    /// A call was let through.
    pub(crate) fn enter(&mut self, now: Timestamp) -> Result<(), String> {
        let Some(until) = self.resting_until else { return Ok(()) };
        if now < until {
            return Err(format!("called at {now} although it is left alone until {until}"));
        }
        if let Some(since) = self.trial_since.filter(|since| now < *since + TRIAL) {
            return Err(format!("called at {now} although it is on trial since {since}"));
        }
        self.trial_since = Some(now);
        Ok(())
    }

    /// A call that was let through was not made.
    pub(crate) fn leave(&mut self) {
        self.trial_since = None;
    }

    /// An answer was heard.
    pub(crate) fn hear(&mut self, outcome: &Outcome, now: Timestamp) {
        if self.resting_until.is_some() && self.trial_since.is_none() {
            return;
        }
        let (weight, asked) = match outcome {
            Outcome::PauseProvider => (RUN, Duration::ZERO),
            Outcome::Unknown => (1, Duration::ZERO),
            Outcome::Retry { limit: None, after } | Outcome::Repeat { after } => {
                (1, after.unwrap_or_default())
            }
            _ => {
                *self = BreakerWatch::default();
                return;
            }
        };
        self.failures += weight;
        if self.failures >= RUN || self.trial_since.is_some() {
            let rest = (FIRST_REST * 2_u32.pow(self.rests.min(10))).min(LONGEST_REST);
            self.resting_until = Some(now + rest.max(asked.min(LONGEST_REST)));
            self.trial_since = None;
            self.rests += 1;
        }
    }
}
