//! One call to a provider, which always results in an answer. If a call must not be repeated (SMS), the worker first records in the ledger
//! that the call starts.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use domain::{Answer, Outcome};
use futures_util::FutureExt as _;
use metrics::{counter, histogram};
use sabotage::CrashPoint;
use service_kit::clock;
use service_kit::metrics::{COPIES_IN_DOUBT, JOB_WAIT_SECONDS, PROVIDER_CALL_SECONDS};
use store::deliveries::ledger::HeldClaim;

use crate::lane::Job;
use crate::lease::{Lease, Stop};
use crate::ledger_batches::LedgerBatches;
use crate::{Call, ChannelSender, Provider};

/// Time for which calls may continue after the process starts to stop.
const CALLS_AFTER_STOP: Duration = Duration::from_secs(10);

const PREPARED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct ProviderCall<'a, S: ChannelSender> {
    pub(crate) sender: &'a S,
    pub(crate) ledger: &'a LedgerBatches,
    pub(crate) stop: &'a Stop,
    pub(crate) job: &'a Job<'a>,
    pub(crate) provider: &'a Provider,
    pub(crate) prepared: S::Prepared,
    pub(crate) claim: HeldClaim,
    pub(crate) until: Instant,
    pub(crate) lease: Duration,
    pub(crate) limit: Duration,
    pub(crate) margin: Duration,
}

pub(crate) struct MadeCall {
    pub(crate) answer: Answer,
    /// None if the answer says nothing about the provider.
    pub(crate) took: Option<Duration>,
}

/// Another worker has claimed the delivery, so no call was made.
pub(crate) struct ClaimLost;

pub(crate) async fn prepare<S: ChannelSender>(sender: &S, job: &Job<'_>) -> Result<S::Prepared, Answer> {
    let preparing = AssertUnwindSafe(sender.prepare(job.envelope.app, job.order)).catch_unwind();
    match tokio::time::timeout(PREPARED_WITHIN, preparing).await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(_panic)) => {
            tracing::error!("the preparation of the call panicked; retrying the delivery without a call");
            Err(Answer::new(Outcome::RETRY, "panic", "the preparation of the call panicked"))
        }
        Err(_) => Err(Answer::new(Outcome::RETRY, "not_prepared", "the call could not be prepared in time")),
    }
}

impl MadeCall {
    fn unreported(outcome: Outcome, code: &str, message: &str) -> MadeCall {
        MadeCall { answer: Answer::new(outcome, code, message), took: None }
    }
}

impl<S: ChannelSender> ProviderCall<'_, S> {
    /// Calls the provider, unless the lease could end before the call does.
    pub(crate) async fn make(self) -> Result<MadeCall, ClaimLost> {
        if !S::CHANNEL.is_repeatable() {
            match self.mark().await {
                Ok(true) => {}
                Ok(false) => return Err(ClaimLost),
                Err(error) => {
                    // The ledger may have recorded the start despite the error. Then no other worker will make the call, so this
                    // worker must settle the attempt.
                    tracing::warn!(%error, "cannot record the start of the call in the ledger; settling the attempt without calling the provider");
                    let message = "could not mark the call; the provider was not called";
                    return Ok(MadeCall::unreported(Outcome::RETRY, "not_marked", message));
                }
            }
        }
        if Instant::now() + self.margin > self.until {
            let message = "too little time was left on the claim; the provider was not called";
            return Ok(MadeCall::unreported(Outcome::RETRY, "too_late", message));
        }
        Ok(self.call_provider().await)
    }

    /// Records that the call starts. If the database fails, retries as long as enough time for the call is left. Returns false if another
    /// worker has the claim.
    async fn mark(&self) -> Result<bool, store::Error> {
        loop {
            match self.ledger.marks.call(self.claim).await {
                Err(error) if Instant::now() + self.margin < self.until && !self.stop.has_begun() => {
                    tracing::warn!(%error, "cannot record the start of the call in the ledger; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                marked => return marked,
            }
        }
    }

    async fn call_provider(self) -> MadeCall {
        let began = Instant::now();
        let Job { lane, envelope, order, .. } = *self.job;
        let (app, send_id, now) = (envelope.app, envelope.send_id, clock::now());
        if order.attempt == 1 {
            histogram!(JOB_WAIT_SECONDS, "channel" => S::CHANNEL.as_str())
                .record(now.since(envelope.at).as_secs_f64());
        }
        if order.doubts > 0 || self.claim.takes_over {
            counter!(COPIES_IN_DOUBT, "channel" => S::CHANNEL.as_str()).increment(1);
        }
        let lease = Lease::until(self.until.into());
        let call = Call { app, send_id, lane, provider: self.provider, job: order, now, lease: &lease };
        let sending = Box::pin(async { self.sender.send(&call, self.prepared).await });
        let call = AssertUnwindSafe(sending).catch_unwind();
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.limit, call) => answer,
            never = lease.keep(self.ledger, self.claim, self.lease, self.stop) => match never {},
            () = self.stop.has_lasted(CALLS_AFTER_STOP) => {
                return MadeCall::unreported(Outcome::Unknown, "stopped", "the process stopped before an answer came");
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
                    provider = self.provider.identifier,
                    "the call to the provider panicked; settling the attempt with an unknown outcome"
                );
                return MadeCall::unreported(Outcome::Unknown, "panic", "the call panicked");
            }
            Err(_) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
        };
        MadeCall { answer, took: Some(took) }
    }
}
