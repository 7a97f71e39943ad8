//! A finished attempt and the job that follows it.

use crate::event::DeliveryJob;
use crate::retry::{FinishedAttempt, RetryDecision, RetryPolicy};
use crate::route::NextRoute;
use crate::{Channel, Outcome, Reason, Route, Status, Timestamp};

/// A finished attempt, with the facts that decide the next step.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd<'a> {
    pub channel: Channel,
    pub job: &'a DeliveryJob,
    pub outcome: &'a Outcome,
    /// The provider that was called, or None if no call was possible.
    pub called: Option<&'a str>,
    /// The provider that the ledger records for this attempt, if any: a worker may have called this provider under an earlier
    /// lease.
    pub claimed: Option<&'a str>,
    /// Identifiers of the providers that serve the target.
    pub serving: &'a [&'a str],
    pub now: Timestamp,
    /// Random number in 0..1 for the jitter of retries.
    pub random: f64,
}

/// Next step for a delivery after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The delivery is finished.
    End(Status, Option<Reason>),
    /// Retry with this job, not before this time.
    Retry(Timestamp, Box<DeliveryJob>),
    /// Parked: retries are exhausted. Holds the job that a redrive would publish.
    Park(Box<DeliveryJob>),
}

impl RetryPolicy {
    /// Decides the next step after an attempt, and sets the route of the next attempt's job.
    #[must_use]
    pub fn following(&self, ended: AttemptEnd<'_>) -> Next {
        let AttemptEnd { job, outcome, .. } = ended;
        let finished = FinishedAttempt {
            channel: ended.channel,
            attempt: job.attempt,
            outcome,
            limited_retries: job.limited_retries,
            now: ended.now,
            expires_at: job.expires_at,
            random: ended.random,
        };
        let (verdict, route) = match ended.next_route() {
            NextRoute::Usual(route) => (self.verdict(finished), route),
            NextRoute::Failover(route) => (RetryPolicy::failover(finished), route),
        };
        let limited_retries = job.limited_retries + u32::from(outcome.is_limited());
        let again = DeliveryJob { attempt: job.attempt + 1, route, limited_retries, ..job.clone() };
        match verdict {
            RetryDecision::End(status, reason) => Next::End(status, reason),
            RetryDecision::RetryAt(due_at) => Next::Retry(due_at, Box::new(again)),
            // A redrive starts a new schedule.
            RetryDecision::Park => Next::Park(Box::new(DeliveryJob { limited_retries: 0, ..again })),
        }
    }
}

impl AttemptEnd<'_> {
    fn next_route(&self) -> NextRoute {
        let route = &self.job.route;
        match (self.called, self.claimed) {
            (Some(called), _) => route.next_route(self.outcome, called, self.serving),
            // Call no other provider: an earlier lease may have expired during a call to this provider.
            (None, Some(claimed)) => {
                NextRoute::Usual(Route { only: Some(claimed.to_owned()), ..route.clone() })
            }
            (None, None) => NextRoute::Usual(route.clone()),
        }
    }
}
