//! Circuit breaker: leaves a provider alone that keeps failing, and tries it again with one call at a time.

use std::time::Duration;

use crate::{Outcome, Timestamp};

/// Failures in a row after which the provider is left alone.
pub const RUN: u32 = 10;
/// How long it is left alone the first time.
pub const FIRST_REST: Duration = Duration::from_secs(5);
/// The rest doubles with each trial that fails, up to this.
pub const LONGEST_REST: Duration = Duration::from_secs(300);
/// A trial whose answer does not come is given up after this, and another one made.
const TRIAL: Duration = Duration::from_secs(120);

/// A provider's health as one worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// Every call is made; so many failed in a row.
    Closed {
        /// Failures since the last answer that showed it alive.
        failures: u32,
    },
    /// No call is made until then.
    Open {
        /// When one call may be tried.
        until: Timestamp,
        /// How often it was left alone in a row.
        rests: u32,
    },
    /// One call is under way, whose answer decides.
    HalfOpen {
        /// When another is tried all the same.
        until: Timestamp,
        /// How often it was left alone in a row.
        rests: u32,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Until when no call is let through; None where one is now.
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        match *self {
            Breaker::Closed { .. } => None,
            Breaker::Open { until, .. } => (until > now).then_some(until),
            // Its answer may be there any moment.
            Breaker::HalfOpen { until, .. } => (until > now).then(|| until.min(now + FIRST_REST)),
        }
    }

    /// Lets a call through, where it does. The first after a rest is the trial.
    pub fn enter(&mut self, now: Timestamp) -> bool {
        if self.closed_until(now).is_some() {
            return false;
        }
        if let Breaker::Open { rests, .. } | Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::HalfOpen { until: now + TRIAL, rests };
        }
        true
    }

    /// A call that was let through is not made after all: the next one may be the trial.
    pub fn leave(&mut self, now: Timestamp) {
        if let Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::Open { until: now, rests };
        }
    }

    /// Takes note of an answer.
    ///
    /// A refusal of the message or the target is a sign of life, and so is a temporary failure of one target (which has
    /// a schedule of its own).
    pub fn report(&mut self, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::Sent { .. }
            | Outcome::Failed
            | Outcome::TargetGone(_)
            | Outcome::Retry { limit: Some(_), .. } => self.alive(),
            Outcome::PauseProvider => self.failed(RUN, None, now),
            Outcome::Retry { after, limit: None } | Outcome::Repeat { after } => self.failed(1, *after, now),
            Outcome::Unknown => self.failed(1, None, now),
        }
    }

    /// An answer from before a rest does not end it.
    fn alive(&mut self) {
        if !matches!(self, Breaker::Open { .. }) {
            *self = Breaker::default();
        }
    }

    fn failed(&mut self, weight: u32, after: Option<Duration>, now: Timestamp) {
        *self = match *self {
            Breaker::Closed { failures } if failures + weight < RUN => {
                Breaker::Closed { failures: failures + weight }
            }
            Breaker::Closed { .. } => rest(0, after, now),
            Breaker::HalfOpen { rests, .. } => rest(rests, after, now),
            Breaker::Open { .. } => return,
        };
    }

    /// Ends a trial that proved little: the next one may be made after `pause`, and later rests grow no longer for it.
    pub fn rest_for(&mut self, pause: Duration, now: Timestamp) {
        if let Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::Open { until: now + pause, rests };
        }
    }

    /// The state's number in metrics: 0 closed, 1 half open, 2 open.
    #[must_use]
    pub fn level(&self) -> u8 {
        match self {
            Breaker::Closed { .. } => 0,
            Breaker::HalfOpen { .. } => 1,
            Breaker::Open { .. } => 2,
        }
    }
}

fn rest(rests: u32, after: Option<Duration>, now: Timestamp) -> Breaker {
    let doubled = FIRST_REST.saturating_mul(2_u32.saturating_pow(rests)).min(LONGEST_REST);
    // A provider may ask for more patience than we have by ourselves, within the same bound.
    let rest = doubled.max(after.unwrap_or_default().min(LONGEST_REST));
    Breaker::Open { until: now + rest, rests: rests.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::RetryLimit;

    const SENT: Outcome = Outcome::Sent { provider_id: None };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0) + Duration::from_secs(seconds)
    }

    fn tripped() -> Breaker {
        let mut breaker = Breaker::default();
        breaker.report(&Outcome::PauseProvider, at(0));
        breaker
    }

    #[test]
    fn a_run_of_failures_opens_it_and_any_sign_of_life_ends_the_run() {
        let limited = Outcome::Retry {
            after: None,
            limit: Some(RetryLimit { retries: 3, over: Duration::from_secs(60) }),
        };
        for alive in [SENT, Outcome::Failed, Outcome::GONE, limited] {
            let mut breaker = Breaker::default();
            for _ in 0..RUN - 1 {
                breaker.report(&Outcome::RETRY, at(0));
            }
            breaker.report(&alive, at(0));
            for failures in 1..=RUN {
                assert_eq!(breaker.closed_until(at(0)), None, "{alive:?} {failures}");
                breaker.report(&Outcome::Unknown, at(0));
            }
            assert_eq!(breaker.closed_until(at(0)), Some(at(5)));
        }
    }

    #[test]
    fn trouble_with_the_account_opens_it_at_once() {
        assert_eq!(tripped().closed_until(at(4)), Some(at(5)));
        assert_eq!(tripped().closed_until(at(5)), None);
    }

    #[test]
    fn after_the_rest_one_call_is_let_through() {
        let mut breaker = tripped();
        assert!(!breaker.enter(at(4)));
        assert!(breaker.enter(at(5)));
        assert!(!breaker.enter(at(5)), "a second");
        breaker.report(&SENT, at(6));
        assert!(breaker.enter(at(6)) && breaker.enter(at(6)));
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn a_trial_that_is_not_made_leaves_its_place_to_another() {
        let mut breaker = tripped();
        assert!(breaker.enter(at(5)));
        breaker.leave(at(6));
        assert!(breaker.enter(at(6)));
        assert!(!breaker.enter(at(100)), "it is under way");
        assert!(breaker.enter(at(126)), "its answer never came");
    }

    #[test]
    fn rests_double_up_to_a_bound() {
        let mut breaker = tripped();
        let mut now = at(0);
        let mut rests = Vec::new();
        for _ in 0..9 {
            let until = breaker.closed_until(now).unwrap();
            rests.push(until.since(now).as_secs());
            now = until;
            assert!(breaker.enter(now));
            breaker.report(&Outcome::RETRY, now);
        }
        assert_eq!(rests, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_provider_that_asks_for_patience_gets_it() {
        let mut breaker = Breaker::default();
        let busy = Outcome::Retry { after: Some(Duration::from_secs(60)), limit: None };
        for _ in 0..RUN {
            breaker.report(&busy, at(0));
        }
        assert_eq!(breaker.closed_until(at(0)), Some(at(60)));
    }

    #[test]
    fn answers_to_calls_from_before_the_rest_change_nothing() {
        let mut breaker = tripped();
        for late in [SENT, Outcome::Unknown, Outcome::PauseProvider] {
            breaker.report(&late, at(3));
            assert_eq!(breaker, tripped());
        }
    }
}
