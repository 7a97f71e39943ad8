//! An attempt that has ended, and the job that follows it.

use crate::event::DeliveryJob;
use crate::retry::{FinishedAttempt, RetryDecision, RetryPolicy};
use crate::route::NextRoute;
use crate::{Channel, Outcome, Reason, Route, Status, Timestamp};

/// An attempt and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd<'a> {
    /// The channel whose worker made it.
    pub channel: Channel,
    /// Its job.
    pub job: &'a DeliveryJob,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// The provider that was called; None where none could be.
    pub called: Option<&'a str>,
    /// The provider that the ledger names: it may have been called before an earlier lease ended.
    pub claimed: Option<&'a str>,
    /// Identifiers of the providers that serve the target.
    pub serving: &'a [&'a str],
    /// When it ended.
    pub now: Timestamp,
    /// A random number in 0..1; spreads retries.
    pub random: f64,
}

/// What follows an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing.
    End(Status, Option<Reason>),
    /// This job, not before that time.
    Retry(Timestamp, Box<DeliveryJob>),
    /// Nothing by itself; this job where somebody puts it back.
    Park(Box<DeliveryJob>),
}

impl RetryPolicy {
    /// Decides what follows an attempt, and by which route.
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
        let (verdict, route) = match ended.onward() {
            NextRoute::Usual(route) => (self.verdict(finished), route),
            NextRoute::Failover(route) => (RetryPolicy::failover(finished), route),
        };
        let limited_retries = job.limited_retries + u32::from(outcome.is_limited());
        let again = DeliveryJob { attempt: job.attempt + 1, route, limited_retries, ..job.clone() };
        match verdict {
            RetryDecision::End(status, reason) => Next::End(status, reason),
            RetryDecision::RetryAt(due_at) => Next::Retry(due_at, Box::new(again)),
            // Whoever puts it back lets it begin anew.
            RetryDecision::Park => Next::Park(Box::new(DeliveryJob { limited_retries: 0, ..again })),
        }
    }
}

impl AttemptEnd<'_> {
    fn onward(&self) -> NextRoute {
        let route = &self.job.route;
        match (self.called, self.claimed) {
            (Some(called), _) => route.after(self.outcome, called, self.serving),
            // It may have been called before its lease ended.
            (None, Some(claimed)) => {
                NextRoute::Usual(Route { only: Some(claimed.to_owned()), ..route.clone() })
            }
            (None, None) => NextRoute::Usual(route.clone()),
        }
    }
}
