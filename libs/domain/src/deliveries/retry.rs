use std::time::Duration;

use crate::event::DeliveryJob;
use crate::route::NextRoute;
use crate::{Channel, Outcome, Reason, Route, Status, Timestamp};

/// The usual schedule. After its last attempt, the delivery is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Delay before each attempt, including the first.
    pub schedule: Vec<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubtLimit {
    /// Calls after the first whose outcome is unknown. The delivery then ends as `unknown`.
    pub further_calls: u32,
    /// Minimum delay before a further call, or the longest delay of the usual schedule if that is shorter.
    pub pause: Duration,
}

impl DoubtLimit {
    /// Limit for an email: no mail server recognises a second copy. RFC 5321, section 4.5.4.1, asks for 30 minutes between
    /// attempts.
    const EMAIL: DoubtLimit = DoubtLimit { further_calls: 2, pause: Duration::from_secs(30 * 60) };

    /// Returns the limit for a channel whose messages are repeated without one replacing the other. A push replaces the one
    /// before it (collapse id, tag), and an SMS is never repeated.
    #[must_use]
    pub fn of(channel: Channel) -> Option<DoubtLimit> {
        (channel == Channel::Email).then_some(DoubtLimit::EMAIL)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    End(Status, Option<Reason>),
    RetryAt(Timestamp),
    /// The usual schedule allows no further attempt.
    Park,
}

#[derive(Clone, Copy, Debug)]
pub struct FinishedAttempt<'a> {
    pub channel: Channel,
    /// Counted from 1.
    pub attempt: u32,
    pub outcome: &'a Outcome,
    /// Earlier attempts that ended in a temporary failure with a [`RetryLimit`](crate::outcome::RetryLimit). A redrive resets the number to
    /// 0.
    pub limited_retries: u32,
    /// Calls whose outcome is unknown, including the attempt that just ended. A redrive resets the number to 0.
    pub doubts: u32,
    pub now: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Number in 0..1; spreads the delays of retries by ±20 %.
    pub random: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd<'a> {
    pub channel: Channel,
    pub job: &'a DeliveryJob,
    pub outcome: &'a Outcome,
    /// None if no call was possible.
    pub called: Option<&'a str>,
    /// Provider that the database records for this attempt: a worker may have called it under an earlier lease.
    pub claimed: Option<&'a str>,
    /// True if an earlier claim of this attempt expired. Its worker may have called the same provider, and the answer is unknown.
    pub takes_over: bool,
    pub serving: &'a [&'a str],
    pub now: Timestamp,
    /// Number in 0..1, for the jitter of retries.
    pub random: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NextStep {
    End(Status, Option<Reason>),
    /// Not before this time.
    Retry(Timestamp, Box<DeliveryJob>),
    /// Retries are exhausted. Holds the job that a redrive would publish.
    Park(Box<DeliveryJob>),
}

impl RetryPolicy {
    #[must_use]
    pub fn next_step(&self, ended: AttemptEnd<'_>) -> NextStep {
        let AttemptEnd { job, outcome, .. } = ended;
        // The worker of an earlier claim may have called, too.
        let doubts = job.doubts + u32::from(ended.takes_over) + u32::from(*outcome == Outcome::Unknown);
        let finished = FinishedAttempt {
            channel: ended.channel,
            attempt: job.attempt,
            outcome,
            limited_retries: job.limited_retries,
            doubts,
            now: ended.now,
            expires_at: job.expires_at,
            random: ended.random,
        };
        let (decision, route) = match ended.next_route() {
            NextRoute::Usual(route) => (self.decide(finished), route),
            NextRoute::Failover(route) => (RetryPolicy::failover(finished), route),
        };
        let limited_retries = job.limited_retries + u32::from(outcome.is_limited());
        let again = DeliveryJob { attempt: job.attempt + 1, route, limited_retries, doubts, ..job.clone() };
        match decision {
            RetryDecision::End(status, reason) => NextStep::End(status, reason),
            RetryDecision::RetryAt(due_at) => NextStep::Retry(due_at, Box::new(again)),
            // After a redrive, the counts start again at 0.
            RetryDecision::Park => {
                NextStep::Park(Box::new(DeliveryJob { limited_retries: 0, doubts: 0, ..again }))
            }
        }
    }

    /// Decides the next step after a finished attempt.
    ///
    /// After an unknown outcome, the call is repeated with the same delivery id, an email within its [`DoubtLimit`], and an SMS only if the
    /// provider de-duplicates by idempotency key. Otherwise the delivery ends, because the recipient could get the message twice.
    #[must_use]
    pub fn decide(&self, finished: FinishedAttempt<'_>) -> RetryDecision {
        match finished.outcome {
            Outcome::Sent { .. } => RetryDecision::End(Status::Sent, None),
            Outcome::Failed => RetryDecision::End(Status::Failed, Some(Reason::ProviderRefused)),
            Outcome::TargetGone(_) => RetryDecision::End(Status::Failed, Some(Reason::TargetGone)),
            Outcome::Unknown if !finished.channel.is_repeatable() => {
                RetryDecision::End(Status::Unknown, Some(Reason::OutcomeUnknown))
            }
            Outcome::Unknown => self.repeat(finished),
            Outcome::PauseProvider => self.next(finished, None),
            Outcome::Retry { after, limit: None } | Outcome::Repeat { after } => self.next(finished, *after),
            Outcome::Retry { after, limit: Some(limit) } => {
                if finished.limited_retries >= limit.retries {
                    return RetryDecision::End(Status::Failed, Some(Reason::RetriesExhausted));
                }
                let step = limit.over / limit.retries.max(1);
                retry_or_expire(finished, step.max(after.unwrap_or_default()))
            }
        }
    }

    /// Decides the next step after an attempt that fails over to another provider: at once, even if the usual schedule has no retry left,
    /// unless the delivery has expired. Each provider is called at most once before the schedule continues.
    #[must_use]
    pub fn failover(finished: FinishedAttempt<'_>) -> RetryDecision {
        retry_or_expire(finished, Duration::ZERO)
    }

    /// Returns None if the receipt does not change the delivery.
    #[must_use]
    pub fn decide_receipt(&self, receipt: FinishedAttempt<'_>) -> Option<RetryDecision> {
        match receipt.outcome {
            Outcome::Sent { .. } => Some(RetryDecision::End(Status::Delivered, None)),
            Outcome::Unknown | Outcome::Repeat { .. } => None,
            _ => Some(self.decide(receipt)),
        }
    }

    fn repeat(&self, finished: FinishedAttempt<'_>) -> RetryDecision {
        match DoubtLimit::of(finished.channel) {
            None => self.next(finished, None),
            Some(limit) if finished.doubts > limit.further_calls => {
                RetryDecision::End(Status::Unknown, Some(Reason::OutcomeUnknown))
            }
            Some(limit) => {
                let longest = self.schedule.iter().max().copied().unwrap_or_default();
                self.next(finished, Some(limit.pause.min(longest)))
            }
        }
    }

    fn next(&self, finished: FinishedAttempt<'_>, after: Option<Duration>) -> RetryDecision {
        match self.schedule.get(finished.attempt as usize) {
            None => RetryDecision::Park,
            Some(delay) => {
                let spread = delay.mul_f64(0.8 + 0.4 * finished.random.clamp(0.0, 1.0));
                retry_or_expire(finished, spread.max(after.unwrap_or_default()))
            }
        }
    }
}

impl AttemptEnd<'_> {
    fn next_route(&self) -> NextRoute {
        let route = &self.job.route;
        match (self.called, self.claimed) {
            // The provider may have accepted the call under the earlier lease, even if it refused this one.
            (Some(called), _) if self.takes_over => {
                let bound = Route { only: Some(called.to_owned()), ..route.clone() };
                bound.next_route(self.outcome, called, self.serving)
            }
            (Some(called), _) => route.next_route(self.outcome, called, self.serving),
            // Call no other provider: an earlier lease may have expired during a call to this provider.
            (None, Some(claimed)) => {
                NextRoute::Usual(Route { only: Some(claimed.to_owned()), ..route.clone() })
            }
            (None, None) => NextRoute::Usual(route.clone()),
        }
    }
}

fn retry_or_expire(finished: FinishedAttempt<'_>, delay: Duration) -> RetryDecision {
    let at = finished.now + delay;
    match finished.expires_at {
        Some(expires_at) if at >= expires_at => RetryDecision::End(Status::Expired, None),
        _ => RetryDecision::RetryAt(at),
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

    fn finished(attempt: u32, outcome: &Outcome) -> FinishedAttempt<'_> {
        let now = Timestamp::from_millis(1_000_000);
        FinishedAttempt {
            channel: Channel::Email,
            attempt,
            outcome,
            limited_retries: 0,
            doubts: u32::from(*outcome == Outcome::Unknown),
            now,
            expires_at: None,
            random: 0.5,
        }
    }

    fn delay_of(decision: &RetryDecision) -> Duration {
        match decision {
            RetryDecision::RetryAt(at) => at.since(Timestamp::from_millis(1_000_000)),
            other => panic!("no retry: {other:?}"),
        }
    }

    #[test]
    fn temporary_failures_follow_the_schedule_and_then_park() {
        assert_eq!(delay_of(&policy().decide(finished(1, &RETRY))), Duration::from_secs(5));
        assert_eq!(delay_of(&policy().decide(finished(2, &RETRY))), Duration::from_secs(30));
        assert_eq!(policy().decide(finished(3, &RETRY)), RetryDecision::Park);
    }

    #[test]
    fn delays_spread_by_a_fifth_and_never_undercut_retry_after() {
        let early = policy().decide(FinishedAttempt { random: 0.0, ..finished(1, &RETRY) });
        let late = policy().decide(FinishedAttempt { random: 1.0, ..finished(1, &RETRY) });
        assert_eq!((delay_of(&early), delay_of(&late)), (Duration::from_secs(4), Duration::from_secs(6)));

        let asked = Outcome::Retry { after: Some(Duration::from_secs(300)), limit: None };
        assert_eq!(delay_of(&policy().decide(finished(1, &asked))), Duration::from_secs(300));
    }

    #[test]
    fn a_retry_beyond_its_expiry_ends_the_delivery() {
        let expires_at = Some(Timestamp::from_millis(1_004_999));
        let decision = policy().decide(FinishedAttempt { expires_at, ..finished(1, &RETRY) });
        assert_eq!(decision, RetryDecision::End(Status::Expired, None));
    }

    #[test]
    fn a_limited_retry_ends_as_failed() {
        let limit = Some(RetryLimit { retries: 3, over: Duration::from_secs(86_400) });
        let full = Outcome::Retry { after: None, limit };
        // Attempts whose outcome had no `RetryLimit` do not count as limited retries.
        let after = |limited_retries| FinishedAttempt { limited_retries, ..finished(9, &full) };
        assert_eq!(delay_of(&policy().decide(after(2))), Duration::from_secs(28_800));
        let end = RetryDecision::End(Status::Failed, Some(Reason::RetriesExhausted));
        assert_eq!(policy().decide(after(3)), end);
    }

    /// Runs a delivery in virtual time. Returns the delays until the delivery ends, and the final decision.
    fn run_to_end(
        policy: &RetryPolicy,
        outcome: &Outcome,
        expires_at: Option<Timestamp>,
    ) -> (Vec<u64>, RetryDecision) {
        let mut now = Timestamp::from_millis(1_000_000);
        let mut delays = Vec::new();
        for attempt in 1.. {
            let limited_retries = if outcome.is_limited() { attempt - 1 } else { 0 };
            let finished = FinishedAttempt { now, expires_at, limited_retries, ..finished(attempt, outcome) };
            match policy.decide(finished) {
                RetryDecision::RetryAt(at) => {
                    delays.push(at.since(now).as_secs());
                    now = at;
                }
                end => return (delays, end),
            }
        }
        unreachable!("every delivery ends")
    }

    fn limited(retries: u32, hours: u64) -> Outcome {
        let over = Duration::from_secs(hours * 3_600);
        Outcome::Retry { after: None, limit: Some(RetryLimit { retries, over }) }
    }

    #[test]
    fn short_schedules_run_to_their_end_in_virtual_time() {
        let exhausted = RetryDecision::End(Status::Failed, Some(Reason::RetriesExhausted));
        let outcome_of = |outcome| run_to_end(&policy(), &outcome, None);
        assert_eq!(outcome_of(limited(1, 0)), (vec![0], exhausted.clone()), "once");
        assert_eq!(outcome_of(limited(2, 24)), (vec![43_200; 2], exhausted.clone()), "twice over a day");
        assert_eq!(outcome_of(limited(3, 24)), (vec![28_800; 3], exhausted), "three times over a day");
        assert_eq!(outcome_of(RETRY), (vec![5, 30], RetryDecision::Park), "the usual schedule");
    }

    #[test]
    fn a_short_schedule_honours_retry_after_and_expiry() {
        let limit = Some(RetryLimit { retries: 1, over: Duration::ZERO });
        let asked = Outcome::Retry { after: Some(Duration::from_secs(90)), limit };
        assert_eq!(run_to_end(&policy(), &asked, None).0, [90]);
        let expires_at = Some(Timestamp::from_millis(1_000_000) + Duration::from_secs(50_000));
        let expired = RetryDecision::End(Status::Expired, None);
        assert_eq!(run_to_end(&policy(), &limited(2, 24), expires_at), (vec![43_200], expired));
    }

    #[test]
    fn a_failover_is_due_at_once_beyond_the_schedule_but_not_beyond_expiry() {
        let pause = Outcome::PauseProvider;
        assert_eq!(delay_of(&RetryPolicy::failover(finished(99, &pause))), Duration::ZERO);
        let expires_at = Some(Timestamp::from_millis(1_000_000));
        let decision = RetryPolicy::failover(FinishedAttempt { expires_at, ..finished(1, &pause) });
        assert_eq!(decision, RetryDecision::End(Status::Expired, None));
    }

    #[test]
    fn a_receipt_delivers_ends_or_repeats_and_never_guesses() {
        let sms = |outcome| FinishedAttempt { channel: Channel::Sms, ..finished(1, outcome) };
        let sent = Outcome::Sent { provider_id: None };
        let arrived = Some(RetryDecision::End(Status::Delivered, None));
        assert_eq!(policy().decide_receipt(sms(&sent)), arrived);
        let refused = Some(RetryDecision::End(Status::Failed, Some(Reason::ProviderRefused)));
        assert_eq!(policy().decide_receipt(sms(&Outcome::Failed)), refused);
        let dead = Some(RetryDecision::End(Status::Failed, Some(Reason::TargetGone)));
        assert_eq!(policy().decide_receipt(sms(&Outcome::GONE)), dead);
        assert_eq!(policy().decide_receipt(sms(&Outcome::Unknown)), None);
        let again = policy().decide_receipt(sms(&RETRY)).unwrap();
        assert_eq!(delay_of(&again), Duration::from_secs(5));
    }

    #[test]
    fn an_email_that_may_have_been_accepted_waits_and_is_repeated_twice() {
        let schedule = [0, 5, 30, 3_600, 3_600, 3_600].map(Duration::from_secs).to_vec();
        let policy = RetryPolicy { schedule };
        let after = |doubts| {
            let attempt = doubts;
            policy.decide(FinishedAttempt { doubts, ..finished(attempt, &Outcome::Unknown) })
        };
        let half_an_hour = Duration::from_secs(1_800);
        assert_eq!([1, 2].map(|doubts| delay_of(&after(doubts))), [half_an_hour; 2]);
        assert_eq!(after(3), RetryDecision::End(Status::Unknown, Some(Reason::OutcomeUnknown)));
    }

    #[test]
    fn an_unknown_outcome_is_repeated_on_the_usual_schedule_for_pushes_and_never_for_sms() {
        let push = FinishedAttempt { channel: Channel::MobilePush, ..finished(1, &Outcome::Unknown) };
        assert_eq!(delay_of(&policy().decide(push)), Duration::from_secs(5));
        let sms = FinishedAttempt { channel: Channel::Sms, ..finished(1, &Outcome::Unknown) };
        assert_eq!(policy().decide(sms), RetryDecision::End(Status::Unknown, Some(Reason::OutcomeUnknown)));
    }

    #[test]
    fn an_unknown_outcome_is_retried_on_every_channel_if_the_provider_deduplicates() {
        let after = Some(Duration::from_secs(7));
        for (outcome, delay) in [(Outcome::REPEAT, 5), (Outcome::Repeat { after }, 7)] {
            let sms = FinishedAttempt { channel: Channel::Sms, ..finished(1, &outcome) };
            assert_eq!(delay_of(&policy().decide(sms)), Duration::from_secs(delay));
            assert_eq!(policy().decide_receipt(sms), None);
        }
    }
}
