//! Circuit breaker: stops calls to a provider that keeps failing, then makes single trial calls until one succeeds.

use std::time::Duration;

use crate::{Outcome, Timestamp};

/// Consecutive failures that open the breaker.
pub const RUN: u32 = 10;
/// First period during which an open breaker allows no calls.
pub const FIRST_REST: Duration = Duration::from_secs(5);
/// Each failed trial doubles the rest up to this maximum.
pub const LONGEST_REST: Duration = Duration::from_secs(300);
/// Time after which a trial call without an answer is abandoned, and the next trial call may start.
const TRIAL: Duration = Duration::from_secs(120);

/// One worker's breaker for a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breaker {
    Closed {
        /// Failures since the last answer that showed the provider alive.
        failures: u32,
    },
    Open {
        /// Earliest time of a trial call.
        until: Timestamp,
        /// Number of rests since the breaker opened.
        rests: u32,
    },
    /// One trial call is in flight.
    HalfOpen {
        /// Earliest time of the next trial call if this trial call gets no answer.
        until: Timestamp,
        rests: u32,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::Closed { failures: 0 }
    }
}

impl Breaker {
    #[must_use]
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        match *self {
            Breaker::Closed { .. } => None,
            Breaker::Open { until, .. } => (until > now).then_some(until),
            // The trial's answer may close the breaker earlier, so let callers check again after at most 5 s.
            Breaker::HalfOpen { until, .. } => (until > now).then(|| until.min(now + FIRST_REST)),
        }
    }

    /// The first call after a rest becomes the trial call.
    pub fn enter(&mut self, now: Timestamp) -> bool {
        if self.closed_until(now).is_some() {
            return false;
        }
        if let Breaker::Open { rests, .. } | Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::HalfOpen { until: now + TRIAL, rests };
        }
        true
    }

    /// Reverts [`enter`](Self::enter) for a call that was not made. If it was the trial, the next call becomes the trial.
    pub fn leave(&mut self, now: Timestamp) {
        if let Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::Open { until: now, rests };
        }
    }

    /// Records the outcome of a call.
    ///
    /// A refusal of the message or the target counts as a success, because the provider works. So does a temporary failure with a
    /// [`RetryLimit`](crate::outcome::RetryLimit), because it concerns only one target.
    pub fn report(&mut self, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::Sent { .. }
            | Outcome::Failed
            | Outcome::TargetGone(_)
            | Outcome::Retry { limit: Some(_), .. } => self.alive(),
            Outcome::PauseProvider => self.count_failure(RUN, None, now),
            Outcome::Retry { after, limit: None } | Outcome::Repeat { after } => {
                self.count_failure(1, *after, now);
            }
            Outcome::Unknown => self.count_failure(1, None, now),
        }
    }

    /// An open breaker stays open, because the answer belongs to a call that started before the rest.
    fn alive(&mut self) {
        if !matches!(self, Breaker::Open { .. }) {
            *self = Breaker::default();
        }
    }

    fn count_failure(&mut self, weight: u32, after: Option<Duration>, now: Timestamp) {
        *self = match *self {
            Breaker::Closed { failures } if failures + weight < RUN => {
                Breaker::Closed { failures: failures + weight }
            }
            Breaker::Closed { .. } => opened(0, after, now),
            Breaker::HalfOpen { rests, .. } => opened(rests, after, now),
            Breaker::Open { .. } => return,
        };
    }

    /// Ends a failed trial whose target may have caused the failure. The next trial may start after `pause`, and later rests do
    /// not get longer.
    pub fn rest_for(&mut self, pause: Duration, now: Timestamp) {
        if let Breaker::HalfOpen { rests, .. } = *self {
            *self = Breaker::Open { until: now + pause, rests };
        }
    }

    /// State for metrics: 0 closed, 1 half open, 2 open.
    #[must_use]
    pub fn level(&self) -> u8 {
        match self {
            Breaker::Closed { .. } => 0,
            Breaker::HalfOpen { .. } => 1,
            Breaker::Open { .. } => 2,
        }
    }
}

fn opened(rests: u32, after: Option<Duration>, now: Timestamp) -> Breaker {
    let doubled = FIRST_REST.saturating_mul(2_u32.saturating_pow(rests)).min(LONGEST_REST);
    // The rest is longer if the provider requests it, but never longer than `LONGEST_REST`.
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

    fn open_breaker() -> Breaker {
        let mut breaker = Breaker::default();
        breaker.report(&Outcome::PauseProvider, at(0));
        breaker
    }

    #[test]
    fn consecutive_failures_open_the_breaker_and_any_sign_of_life_resets_the_count() {
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
    fn an_account_failure_opens_the_breaker_at_once() {
        assert_eq!(open_breaker().closed_until(at(4)), Some(at(5)));
        assert_eq!(open_breaker().closed_until(at(5)), None);
    }

    #[test]
    fn one_trial_call_passes_after_the_rest() {
        let mut breaker = open_breaker();
        assert!(!breaker.enter(at(4)));
        assert!(breaker.enter(at(5)));
        assert!(!breaker.enter(at(5)), "admitted a second trial");
        breaker.report(&SENT, at(6));
        assert!(breaker.enter(at(6)) && breaker.enter(at(6)));
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn a_trial_that_was_not_made_allows_another() {
        let mut breaker = open_breaker();
        assert!(breaker.enter(at(5)));
        breaker.leave(at(6));
        assert!(breaker.enter(at(6)));
        assert!(!breaker.enter(at(100)), "admitted a call while a trial is in flight");
        assert!(breaker.enter(at(126)), "the unanswered trial still blocks");
    }

    #[test]
    fn rests_double_up_to_the_limit() {
        let mut breaker = open_breaker();
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
    fn a_provider_may_ask_for_a_longer_rest() {
        let mut breaker = Breaker::default();
        let busy = Outcome::Retry { after: Some(Duration::from_secs(60)), limit: None };
        for _ in 0..RUN {
            breaker.report(&busy, at(0));
        }
        assert_eq!(breaker.closed_until(at(0)), Some(at(60)));
    }

    #[test]
    fn answers_to_calls_made_before_the_rest_change_nothing() {
        let mut breaker = open_breaker();
        for late in [SENT, Outcome::Unknown, Outcome::PauseProvider] {
            breaker.report(&late, at(3));
            assert_eq!(breaker, open_breaker());
        }
    }
}
