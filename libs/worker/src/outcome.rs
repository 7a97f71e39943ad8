//! The outcome of an attempt. The provider's answer exists only in this process, so it is recorded as far as PostgreSQL accepts it.

use std::time::{Duration, Instant};

use domain::event::{DeliveryJob, DeliverySettled, TargetSuppressed};
use domain::{Envelope, Event, Reason, Status, StreamName};
use sabotage::CrashPoint;
use service_kit::append::NewEvent;
use service_kit::clock;
use store::deliveries::ledger::DeliveryState;
use store::deliveries::settlement::Settlement;
use uuid::Uuid;

use crate::lane::{Job, JobEnd};
use crate::ledger_batches::LedgerBatches;

const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// Age from which a known state is read again: a receipt may have changed it, for example while the process was paused.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct SettledOutcome {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    pub(crate) provider: Option<String>,
    pub(crate) known_at: Instant,
}

/// Records the answer; if PostgreSQL rejects it, records it without the provider's text, then only the status: otherwise the job would be
/// retried and the provider called again. While the database is unavailable, retries without a limit.
pub(crate) async fn record(
    ledger: &LedgerBatches,
    job: &Job<'_>,
    settlement: Settlement,
) -> Result<Settlement, JobEnd> {
    let mut settlement = settlement;
    let mut settled = write(ledger, &settlement).await;
    if let Err(refused) = &settled {
        tracing::error!(
            error = %refused,
            "PostgreSQL rejected the provider's answer; recording it without the provider's text"
        );
        settlement = settlement.without_provider_text();
        settled = write(ledger, &settlement).await;
    }
    if let Err(refused) = &settled {
        tracing::error!(error = %refused, "PostgreSQL rejected the attempt; recording its status only");
        settlement = settlement.status_only();
        settled = ledger.store.deliveries().settle_status_only(&settlement).await;
    }
    match settled {
        Ok(true) => Ok(settlement),
        Ok(false) => Err(after_losing_the_claim(ledger, job).await),
        Err(refused) => Err(park(job, &refused.to_string()).await),
    }
}

/// False if the claim is lost.
async fn write(ledger: &LedgerBatches, settlement: &Settlement) -> Result<bool, store::Error> {
    loop {
        match ledger.settlements.call(settlement.clone()).await.flatten() {
            Ok(held) => return Ok(held),
            Err(error) if error.is_refused_data() => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot settle the delivery; trying again"),
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
}

/// Parks the job, because a retry would call the provider again.
async fn park(job: &Job<'_>, cause: &str) -> JobEnd {
    loop {
        match job.work_stream.park(job.delivered, job.owner(), cause).await {
            Ok(()) => return JobEnd::Acknowledge,
            Err(error) if error.is_refused_data() => return JobEnd::Failed(cause.to_owned()),
            Err(error) => tracing::warn!(%error, "cannot park the delivery; trying again"),
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
}

/// Another worker has settled the attempt, is still working, or has returned the claim.
pub(crate) async fn after_losing_the_claim(ledger: &LedgerBatches, job: &Job<'_>) -> JobEnd {
    let named = [(job.envelope.app, job.order.delivery_id)];
    match ledger.store.deliveries().delivery_states(&named).await {
        Ok(states) => match states.first() {
            Some(state) if state.status.is_terminal() || state.attempt > job.order.attempt => {
                return publish_again(ledger, job, state).await;
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

/// Publishes the outcome for a worker that may have stopped after it settled the attempt.
pub(crate) async fn publish_again(ledger: &LedgerBatches, job: &Job<'_>, state: &DeliveryState) -> JobEnd {
    publish(ledger, job, outcome_of(job, state)).await
}

fn outcome_of(job: &Job<'_>, state: &DeliveryState) -> SettledOutcome {
    let is_of_attempt = state.attempt == job.order.attempt || state.is_parked_after(job.order.attempt);
    let (status, reason) =
        if is_of_attempt { (state.status, state.reason) } else { (Status::Retrying, None) };
    SettledOutcome { status, reason, provider: state.provider.clone(), known_at: Instant::now() }
}

/// Reads a state again that may be stale: after a receipt, a stale outcome must not be the last one.
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

/// The job may be acknowledged once the log has confirmed it. Otherwise the log redelivers the job, and a worker publishes the outcome
/// again.
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

/// Event with a separate id, because the log drops the repetition of an event.
fn correction(job: &Job<'_>, outcome: SettledOutcome) -> Vec<NewEvent> {
    encoded(job, vec![outcome_event(job, outcome, "corrected")])
}

/// True only while the target stays suppressed; registering it again ends that.
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
