//! Early ends of an attempt: before the call, or after the claim was lost.

use domain::Timestamp;
use metrics::counter;
use service_kit::metrics::POSTPONED;
use store::deliveries::ledger::HeldClaim;

use crate::admission::after_busy_pause;
use crate::job::{Job, JobEnd};
use crate::ledger_batches::LedgerBatches;
use crate::outcome_events;

/// Replaces the job with a timer for the same attempt. A job that is returned to the log would count against
/// `max_ack_pending` while it waits. If the delivery expires before `at`, the timer is due at the expiry, and the delivery then
/// ends as expired.
pub(crate) async fn postpone(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    at: Timestamp,
    cause: &'static str,
) -> JobEnd {
    let due_at = job.order.expires_at.map_or(at, |expires_at| at.min(expires_at));
    let timer = match job.timer(due_at, Box::new(job.order.clone())) {
        Ok(timer) => timer,
        Err(error) => {
            tracing::error!(%error, "cannot encode the job; retrying the job");
            return JobEnd::ReturnLater;
        }
    };
    match ledger.timers.call(timer).await {
        Ok(()) => {
            counter!(POSTPONED, "channel" => job.channel.as_str(), "cause" => cause).increment(1);
            tracing::debug!(%due_at, cause, "postponed the job");
            JobEnd::Acknowledge
        }
        Err(error) => {
            tracing::warn!(%error, "cannot postpone the job; retrying the job");
            JobEnd::ReturnLater
        }
    }
}

/// Gives the claim back because its call would have to wait too long, and postpones the job.
pub(crate) async fn give_back(ledger: &LedgerBatches, job: &Job<'_>, claim: HeldClaim) -> JobEnd {
    match ledger.store.deliveries().give_back(claim).await {
        Ok(true) => postpone(ledger, job, after_busy_pause(), "busy").await,
        Ok(false) => after_losing_the_claim(ledger, job).await,
        Err(error) => {
            tracing::warn!(%error, "cannot give a claim back; retrying the job");
            JobEnd::ReturnLater
        }
    }
}

/// Handles a lost claim: another worker has settled the attempt, or has claimed the delivery and is still working, or has given the
/// claim back.
pub(crate) async fn after_losing_the_claim(ledger: &LedgerBatches, job: &Job<'_>) -> JobEnd {
    let named = [(job.envelope.app, job.order.delivery_id)];
    match ledger.store.deliveries().delivery_states(&named).await {
        Ok(states) => match states.first() {
            Some(state) if state.status.is_terminal() || state.attempt > job.order.attempt => {
                return outcome_events::publish_again(ledger, job, state).await;
            }
            // Do not acknowledge the job: the other worker does that when it has settled the attempt or postponed the job.
            _ => tracing::warn!("another worker has claimed the delivery; leaving it to that worker"),
        },
        Err(error) => {
            tracing::warn!(
                %error,
                "cannot read the state of a delivery that another worker has claimed; leaving the delivery to that worker"
            );
        }
    }
    JobEnd::Leave
}
