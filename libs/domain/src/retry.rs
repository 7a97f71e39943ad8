//! What follows an attempt: the end, another attempt, or parking.

use std::time::Duration;

use crate::{Channel, Outcome, Reason, Status, Timestamp};

/// Delays before each attempt; the first is the delay before attempt 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Delay before attempt n at index n − 1.
    pub schedule: Vec<Duration>,
}

/// What an attempt's outcome leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more happens.
    End(Status, Option<Reason>),
    /// Another attempt at this time.
    RetryAt(Timestamp),
    /// Set aside with the last answer.
    Park,
}

/// The facts that a verdict rests on.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// The channel of the delivery.
    pub channel: Channel,
    /// Number of the attempt that has just ended, from 1.
    pub attempt: u32,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// When it ended.
    pub now: Timestamp,
    /// When the notification loses its worth.
    pub expires_at: Option<Timestamp>,
    /// A random number in 0..1; spreads retries by ±20 %.
    pub random: f64,
}

impl RetryPolicy {
    /// Decides what follows the finished attempt.
    ///
    /// An unknown outcome is repeated under the same id, except for SMS, where a second message would reach
    /// the person: there it is the end.
    #[must_use]
    pub fn verdict(&self, finished: Finished<'_>) -> Verdict {
        match finished.outcome {
            Outcome::Sent { .. } => Verdict::End(Status::Sent, None),
            Outcome::Failed => Verdict::End(Status::Failed, Some(Reason::ProviderRefused)),
            Outcome::TargetGone => Verdict::End(Status::Failed, Some(Reason::TargetGone)),
            Outcome::Unknown if finished.channel == Channel::Sms => {
                Verdict::End(Status::Unknown, Some(Reason::OutcomeUnknown))
            }
            Outcome::Unknown | Outcome::PauseProvider => self.next(finished, None),
            Outcome::Retry { after, limit: None } => self.next(finished, *after),
            Outcome::Retry { after, limit: Some(limit) } => {
                if finished.attempt > limit.retries {
                    return Verdict::End(Status::Failed, Some(Reason::RetriesExhausted));
                }
                let step = limit.over / limit.retries.max(1);
                retry_or_expire(finished, step.max(after.unwrap_or_default()))
            }
        }
    }

    fn next(&self, finished: Finished<'_>, after: Option<Duration>) -> Verdict {
        match self.schedule.get(finished.attempt as usize) {
            None => Verdict::Park,
            Some(delay) => {
                let spread = delay.mul_f64(0.8 + 0.4 * finished.random.clamp(0.0, 1.0));
                retry_or_expire(finished, spread.max(after.unwrap_or_default()))
            }
        }
    }
}

fn retry_or_expire(finished: Finished<'_>, delay: Duration) -> Verdict {
    let at = finished.now + delay;
    match finished.expires_at {
        Some(expires_at) if at >= expires_at => Verdict::End(Status::Expired, None),
        _ => Verdict::RetryAt(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::RetryLimit;

    const RETRY: Outcome = Outcome::Retry { after: None, limit: None };

    fn policy() -> RetryPolicy {
        RetryPolicy { schedule: [0, 5, 30].map(Duration::from_secs).to_vec() }
    }

    fn finished(attempt: u32, outcome: &Outcome) -> Finished<'_> {
        let now = Timestamp::from_millis(1_000_000);
        Finished { channel: Channel::Email, attempt, outcome, now, expires_at: None, random: 0.5 }
    }

    fn delay_of(verdict: &Verdict) -> Duration {
        match verdict {
            Verdict::RetryAt(at) => at.since(Timestamp::from_millis(1_000_000)),
            other => panic!("no retry: {other:?}"),
        }
    }

    #[test]
    fn temporary_failures_walk_the_schedule_and_then_park() {
        assert_eq!(delay_of(&policy().verdict(finished(1, &RETRY))), Duration::from_secs(5));
        assert_eq!(delay_of(&policy().verdict(finished(2, &RETRY))), Duration::from_secs(30));
        assert_eq!(policy().verdict(finished(3, &RETRY)), Verdict::Park);
    }

    #[test]
    fn delays_spread_by_a_fifth_and_never_undercut_retry_after() {
        let early = policy().verdict(Finished { random: 0.0, ..finished(1, &RETRY) });
        let late = policy().verdict(Finished { random: 1.0, ..finished(1, &RETRY) });
        assert_eq!((delay_of(&early), delay_of(&late)), (Duration::from_secs(4), Duration::from_secs(6)));

        let asked = Outcome::Retry { after: Some(Duration::from_secs(300)), limit: None };
        assert_eq!(delay_of(&policy().verdict(finished(1, &asked))), Duration::from_secs(300));
    }

    #[test]
    fn a_retry_beyond_its_expiry_is_the_end() {
        let expires_at = Some(Timestamp::from_millis(1_004_999));
        let verdict = policy().verdict(Finished { expires_at, ..finished(1, &RETRY) });
        assert_eq!(verdict, Verdict::End(Status::Expired, None));
    }

    #[test]
    fn a_limited_retry_ends_as_failed() {
        let limit = Some(RetryLimit { retries: 3, over: Duration::from_secs(86_400) });
        let full = Outcome::Retry { after: None, limit };
        assert_eq!(delay_of(&policy().verdict(finished(3, &full))), Duration::from_secs(28_800));
        let end = Verdict::End(Status::Failed, Some(Reason::RetriesExhausted));
        assert_eq!(policy().verdict(finished(4, &full)), end);
    }

    #[test]
    fn an_unknown_outcome_is_repeated_except_for_sms() {
        assert_eq!(delay_of(&policy().verdict(finished(1, &Outcome::Unknown))), Duration::from_secs(5));
        let sms = Finished { channel: Channel::Sms, ..finished(1, &Outcome::Unknown) };
        assert_eq!(policy().verdict(sms), Verdict::End(Status::Unknown, Some(Reason::OutcomeUnknown)));
    }
}
