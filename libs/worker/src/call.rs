//! One call to a provider. It has a time limit and always results in an answer. If a call must not be repeated (SMS), the
//! worker first records in the ledger that the call starts.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use domain::{Answer, Outcome};
use futures_util::FutureExt as _;
use metrics::histogram;
use sabotage::CrashPoint;
use service_kit::clock;
use service_kit::metrics::{JOB_WAIT_SECONDS, PROVIDER_CALL_SECONDS};
use store::deliveries::ledger::HeldClaim;
use uuid::Uuid;

use crate::gate::BreakerPermit;
use crate::job::{Job, Worker};
use crate::{Call, ChannelSender, Provider};

/// Time for which calls may continue after the process starts to stop. The time that then remains is for settling the answers.
const CALLS_AFTER_STOP: Duration = Duration::from_secs(10);

/// Result of trying to call the provider.
pub(crate) enum CallResult {
    /// Answer with which to settle the attempt.
    Answer(Answer),
    /// Another worker has claimed the delivery, so no call was made.
    ClaimLost,
}

impl<S: ChannelSender> Worker<S> {
    /// Returns the time limit of one call: three fifths of the lease. The rest of the lease is for settling the answer.
    pub(crate) fn call_limit(&self) -> Duration {
        self.context.config.delivery.lease * 3 / 5
    }

    /// Calls the provider, unless the lease could end before the call does.
    pub(crate) async fn call(
        &self,
        job: &Job<'_>,
        provider: &Provider,
        entry: Option<BreakerPermit>,
        token: Uuid,
        until: Instant,
    ) -> CallResult {
        if !S::CHANNEL.is_repeatable() {
            match self.mark(job, token, until).await {
                Ok(true) => {}
                Ok(false) => return CallResult::ClaimLost,
                Err(error) => {
                    // The ledger may have recorded the start despite the error. Then no other worker will make the call, so this
                    // worker must settle the attempt.
                    tracing::warn!(%error, "cannot record the start of the call in the ledger; settling the attempt without calling the provider");
                    return without_call(
                        "not_marked",
                        "could not mark the call; the provider was not called",
                    );
                }
            }
        }
        if Instant::now() + self.call_limit() > until {
            return without_call(
                "too_late",
                "too little time was left on the claim; the provider was not called",
            );
        }
        CallResult::Answer(self.call_provider(job, provider, entry).await)
    }

    /// Records in the ledger that the call starts. If the database fails, retries as long as enough time for the call is left.
    /// Returns false if another worker has the claim.
    async fn mark(&self, job: &Job<'_>, token: Uuid, until: Instant) -> Result<bool, store::Error> {
        let mark = HeldClaim { app: job.envelope.app, delivery: job.order.delivery_id, token };
        loop {
            match self.ledger.marks.call(mark).await {
                Err(error) if Instant::now() + self.call_limit() < until && !self.is_stopping() => {
                    tracing::warn!(%error, "cannot record the start of the call in the ledger; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                marked => return marked,
            }
        }
    }

    async fn call_provider(
        &self,
        job: &Job<'_>,
        provider: &Provider,
        entry: Option<BreakerPermit>,
    ) -> Answer {
        let began = Instant::now();
        let Job { lane, envelope, order, .. } = *job;
        let (app, send_id, now) = (envelope.app, envelope.send_id, clock::now());
        if order.attempt == 1 {
            histogram!(JOB_WAIT_SECONDS, "channel" => S::CHANNEL.as_str())
                .record(now.since(envelope.at).as_secs_f64());
        }
        let call = Call { app, send_id, lane, provider, job: order, now };
        let call = AssertUnwindSafe(async { self.sender.send(&call).await }).catch_unwind();
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.call_limit(), call) => answer,
            () = self.stopped_for(CALLS_AFTER_STOP) => {
                return Answer::new(Outcome::Unknown, "stopped", "the process stopped before an answer came");
            }
        };
        let took = began.elapsed();
        histogram!(PROVIDER_CALL_SECONDS, "channel" => S::CHANNEL.as_str()).record(took.as_secs_f64());
        if matches!(&answer, Ok(Ok(Answer { outcome: Outcome::Sent { .. }, .. }))) {
            sabotage::reach(CrashPoint::AfterYes);
        }
        let answer = match answer {
            Ok(Ok(answer)) => answer.storable(),
            Ok(Err(_panic)) => {
                // Settle this attempt like any other, so that it counts and the job is parked after the last retry. The panic does
                // not count against the provider's health.
                tracing::error!(
                    provider = provider.identifier,
                    "the call to the provider panicked; settling the attempt with an unknown outcome"
                );
                return Answer::new(Outcome::Unknown, "panic", "the call panicked");
            }
            Err(_) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
        };
        if let Some(entry) = entry {
            entry.report(&answer, took);
        }
        answer
    }
}

fn without_call(code: &str, message: &str) -> CallResult {
    CallResult::Answer(Answer::new(Outcome::RETRY, code, message))
}
