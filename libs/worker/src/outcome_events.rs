//! Publishes the outcomes of attempts.

use domain::event::{DeliveryJob, DeliverySettled, TargetSuppressed};
use domain::{Envelope, Event, Reason, Status, StreamName};
use sabotage::CrashPoint;
use service_kit::append::NewEvent;
use service_kit::clock;
use store::deliveries::ledger::DeliveryState;
use uuid::Uuid;

use crate::job::{Job, JobEnd};
use crate::ledger_batches::LedgerBatches;

/// State of a delivery after an attempt.
pub(crate) struct SettledOutcome {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    /// Identifier of the provider that was called.
    pub(crate) provider: Option<String>,
}

/// Publishes the recorded outcome of the job's attempt again. The worker that settled the attempt may have stopped before it
/// published the outcome.
pub(crate) async fn publish_again(ledger: &LedgerBatches, job: &Job<'_>, state: &DeliveryState) -> JobEnd {
    let is_of_attempt = state.attempt == job.order.attempt || state.is_parked_after(job.order.attempt);
    let (status, reason) =
        if is_of_attempt { (state.status, state.reason) } else { (Status::Retrying, None) };
    publish(ledger, job, SettledOutcome { status, reason, provider: state.provider.clone() }).await
}

/// Publishes an outcome. The job may be acknowledged once the log has confirmed it. Otherwise the log redelivers the job, and a
/// worker publishes the outcome again.
pub(crate) async fn publish(ledger: &LedgerBatches, job: &Job<'_>, outcome: SettledOutcome) -> JobEnd {
    let is_suppressed = match has_suppressed(ledger, job, outcome.reason).await {
        Ok(is_suppressed) => is_suppressed,
        Err(error) => {
            tracing::warn!(%error, "cannot read the target's suppression; publishing the outcome when the job is redelivered");
            return JobEnd::ReturnLater;
        }
    };
    let appended = ledger.outcomes.call(events(job, outcome, is_suppressed)).await;
    match appended.map_err(anyhow::Error::from).and_then(|appended| Ok(appended?)) {
        Ok(()) => {
            sabotage::reach(CrashPoint::BeforeAck);
            JobEnd::Acknowledge
        }
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot publish the outcome; trying again when the job is redelivered"
            );
            JobEnd::ReturnLater
        }
    }
}

/// Returns true if the job's answer suppressed its target and the target is still suppressed. A target that was registered
/// again is no longer suppressed.
async fn has_suppressed(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    reason: Option<Reason>,
) -> Result<bool, store::Error> {
    match reason {
        Some(Reason::TargetGone) => {
            ledger.store.deliveries().has_suppressed(job.envelope.app, job.order.delivery_id).await
        }
        _ => Ok(false),
    }
}

fn events(job: &Job<'_>, outcome: SettledOutcome, is_suppressed: bool) -> Vec<NewEvent> {
    let SettledOutcome { status, reason, provider } = outcome;
    let DeliveryJob { delivery_id, attempt, user, .. } = *job.order;
    let channel = job.channel;
    let settled = DeliverySettled { delivery_id, channel, user, attempt, status, reason, provider };
    let of_suppression = settled.ids("suppressed");
    let mut events = vec![(settled.ids("settled"), Event::DeliverySettled(settled))];
    if is_suppressed {
        let suppressed = TargetSuppressed { delivery_id, channel, user };
        events.push((of_suppression, Event::TargetSuppressed(suppressed)));
    }
    let encoded = events.into_iter().map(|((name, id), event)| new_event(job, name, id, event));
    encoded
        .filter_map(|event| {
            event
                .inspect_err(|error| tracing::error!(%error, "cannot encode an outcome; not publishing it"))
                .ok()
        })
        .collect()
}

fn new_event(job: &Job<'_>, name: String, id: Uuid, event: Event) -> Result<NewEvent, serde_json::Error> {
    let Envelope { id: job_id, app, send_id, ref trace, .. } = *job.envelope;
    let (caused_by, trace) = (Some(job_id), trace.clone());
    let envelope = Envelope { id, app, at: clock::now(), send_id, caused_by, trace, event };
    NewEvent::new(StreamName::Outcome, Some(name), &envelope)
}
