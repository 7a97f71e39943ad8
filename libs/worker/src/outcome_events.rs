//! Publishes the outcomes of attempts.

use std::time::{Duration, Instant};

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
#[derive(Clone, Debug)]
pub(crate) struct SettledOutcome {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    /// Identifier of the provider that was called.
    pub(crate) provider: Option<String>,
    /// Time at which the ledger had this state.
    pub(crate) known_at: Instant,
}

/// Age of a known state from which it is read again. A receipt may have changed it, for example while the process was paused.
const FRESH: Duration = Duration::from_secs(1);

/// Publishes the recorded outcome of the job's attempt again. The worker that settled the attempt may have stopped before it
/// published the outcome.
pub(crate) async fn publish_again(ledger: &LedgerBatches, job: &Job<'_>, state: &DeliveryState) -> JobEnd {
    publish(ledger, job, outcome_of(job, state)).await
}

fn outcome_of(job: &Job<'_>, state: &DeliveryState) -> SettledOutcome {
    let is_of_attempt = state.attempt == job.order.attempt || state.is_parked_after(job.order.attempt);
    let (status, reason) =
        if is_of_attempt { (state.status, state.reason) } else { (Status::Retrying, None) };
    SettledOutcome { status, reason, provider: state.provider.clone(), known_at: Instant::now() }
}

/// Reads the state of the delivery again if it may have changed: after a receipt, a stale outcome must not be the last one.
async fn current(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    outcome: SettledOutcome,
) -> Result<SettledOutcome, store::Error> {
    if outcome.known_at.elapsed() < FRESH {
        return Ok(outcome);
    }
    let known_at = Instant::now();
    let named = [(job.envelope.app, job.order.delivery_id)];
    let states = ledger.store.deliveries().delivery_states(&named).await?;
    let read = states.first().map(|state| SettledOutcome { known_at, ..outcome_of(job, state) });
    Ok(read.unwrap_or(outcome))
}

/// Publishes an outcome, as the ledger has it now. The job may be acknowledged once the log has confirmed it. Otherwise the log
/// redelivers the job, and a worker publishes the outcome again.
pub(crate) async fn publish(ledger: &LedgerBatches, job: &Job<'_>, outcome: SettledOutcome) -> JobEnd {
    let outcome = match current(ledger, job, outcome).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::warn!(%error, "cannot read the outcome of a delivery again; publishing it when the job is redelivered");
            return JobEnd::ReturnLater;
        }
    };
    let published = outcome.clone();
    let is_suppressed = match has_suppressed(ledger, job, outcome.reason).await {
        Ok(is_suppressed) => is_suppressed,
        Err(error) => {
            tracing::warn!(%error, "cannot read the target's suppression; publishing the outcome when the job is redelivered");
            return JobEnd::ReturnLater;
        }
    };
    let appended = ledger.outcomes.call(events(job, outcome, is_suppressed)).await;
    match appended.map_err(anyhow::Error::from).and_then(|appended| Ok(appended?)) {
        // The process may have been paused on the way. The receipt's event is then older than this one, so another follows.
        Ok(()) if published.known_at.elapsed() >= FRESH => correct(ledger, job, published).await,
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

/// Publishes the state of the delivery again if it is not the one that was published.
async fn correct(ledger: &LedgerBatches, job: &Job<'_>, published: SettledOutcome) -> JobEnd {
    let status = published.status;
    let corrected = match current(ledger, job, published).await {
        Ok(current) if current.status == status => return JobEnd::Acknowledge,
        Ok(current) => ledger.outcomes.call(correction(job, current)).await,
        Err(error) => Err(error),
    };
    match corrected.map_err(anyhow::Error::from).and_then(|appended| Ok(appended?)) {
        Ok(()) => JobEnd::Acknowledge,
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                "cannot publish the corrected outcome; trying again when the job is redelivered"
            );
            JobEnd::ReturnLater
        }
    }
}

/// Returns the event that corrects a stale one. It has a separate id, because the log drops the repetition of an event.
fn correction(job: &Job<'_>, outcome: SettledOutcome) -> Vec<NewEvent> {
    encoded(job, vec![outcome_event(job, outcome, "corrected")])
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
    let DeliveryJob { delivery_id, user, .. } = *job.order;
    let channel = job.channel;
    let of_suppression = settled(job, outcome.clone()).ids("suppressed");
    let mut events = vec![outcome_event(job, outcome, "settled")];
    if is_suppressed {
        let suppressed = TargetSuppressed { delivery_id, channel, user };
        events.push((of_suppression, Event::TargetSuppressed(suppressed)));
    }
    encoded(job, events)
}

fn settled(job: &Job<'_>, outcome: SettledOutcome) -> DeliverySettled {
    let SettledOutcome { status, reason, provider, .. } = outcome;
    let DeliveryJob { delivery_id, attempt, user, .. } = *job.order;
    DeliverySettled { delivery_id, channel: job.channel, user, attempt, status, reason, provider }
}

fn outcome_event(job: &Job<'_>, outcome: SettledOutcome, what: &str) -> ((String, Uuid), Event) {
    let settled = settled(job, outcome);
    (settled.ids(what), Event::DeliverySettled(settled))
}

fn encoded(job: &Job<'_>, events: Vec<((String, Uuid), Event)>) -> Vec<NewEvent> {
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
