//! An attempt that has ended, and the job that follows it.

use crate::event::DeliveryJob;
use crate::retry::{Finished, RetryPolicy, Verdict};
use crate::route::Onward;
use crate::{Channel, Outcome, Reason, Route, Status, Timestamp};

/// An attempt and its outcome.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
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
pub enum Following {
    /// Nothing.
    End(Status, Option<Reason>),
    /// This job, not before that time.
    Again(Timestamp, Box<DeliveryJob>),
    /// Nothing by itself; this job where somebody puts it back.
    Aside(Box<DeliveryJob>),
}

impl RetryPolicy {
    /// Decides what follows an attempt, and by which route.
    #[must_use]
    pub fn following(&self, ended: Ended<'_>) -> Following {
        let Ended { job, outcome, .. } = ended;
        let finished = Finished {
            channel: ended.channel,
            attempt: job.attempt,
            outcome,
            limited_retries: job.limited_retries,
            now: ended.now,
            expires_at: job.expires_at,
            random: ended.random,
        };
        let (verdict, route) = match ended.onward() {
            Onward::Usual(route) => (self.verdict(finished), route),
            Onward::Failover(route) => (RetryPolicy::failover(finished), route),
        };
        let limited_retries = job.limited_retries + u32::from(outcome.is_limited());
        let again = DeliveryJob { attempt: job.attempt + 1, route, limited_retries, ..job.clone() };
        match verdict {
            Verdict::End(status, reason) => Following::End(status, reason),
            Verdict::RetryAt(due_at) => Following::Again(due_at, Box::new(again)),
            // Whoever puts it back lets it begin anew.
            Verdict::Park => Following::Aside(Box::new(DeliveryJob { limited_retries: 0, ..again })),
        }
    }
}

impl Ended<'_> {
    fn onward(&self) -> Onward {
        let route = &self.job.route;
        match (self.called, self.claimed) {
            (Some(called), _) => route.after(self.outcome, called, self.serving),
            // It may have been called before its lease ended.
            (None, Some(claimed)) => Onward::Usual(Route { only: Some(claimed.to_owned()), ..route.clone() }),
            (None, None) => Onward::Usual(route.clone()),
        }
    }
}
