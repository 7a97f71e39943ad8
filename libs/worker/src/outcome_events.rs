//! The end of a job: publishes its outcome and acknowledges the job.

use domain::event::{DeliveryJob, DeliverySettled, TargetSuppressed};
use domain::{Envelope, Event, Reason, Status, StreamName};
use sabotage::CrashPoint;
use service_kit::append::NewEvent;
use service_kit::clock;
use store::deliveries::ledger::DeliveryState;
use uuid::Uuid;

use crate::ChannelSender;
use crate::job::{Job, Worker};

impl<S: ChannelSender> Worker<S> {
    /// Publishes the recorded outcome of the job's attempt again. The worker that settled the attempt may have stopped before
    /// it published the outcome.
    pub(crate) async fn republish_outcome(&self, job: &Job<'_>, state: &DeliveryState) {
        let (status, reason) =
            if state.attempt == job.order.attempt || state.is_parked_after(job.order.attempt) {
                (state.status, state.reason)
            } else {
                (Status::Retrying, None)
            };
        self.publish_outcome(job, status, reason, state.provider.clone()).await;
    }

    /// Publishes the outcome, then acknowledges the job. If the log does not confirm the outcome, the log redelivers the job
    /// and a worker publishes the outcome again.
    pub(crate) async fn publish_outcome(
        &self,
        job: &Job<'_>,
        status: Status,
        reason: Option<Reason>,
        provider: Option<String>,
    ) {
        let is_suppressed = match self.has_suppressed(job, reason).await {
            Ok(is_suppressed) => is_suppressed,
            Err(error) => {
                tracing::warn!(%error, "cannot read the target's suppression; publishing the outcome when the job is redelivered");
                return job.work_stream.return_later(job.delivered).await;
            }
        };
        let DeliveryJob { delivery_id, attempt, user, .. } = *job.order;
        let channel = S::CHANNEL;
        let settled = DeliverySettled { delivery_id, channel, user, attempt, status, reason, provider };
        let of_suppression = settled.ids("suppressed");
        let mut events = vec![(settled.ids("settled"), Event::DeliverySettled(settled))];
        if is_suppressed {
            let suppressed = TargetSuppressed { delivery_id, channel, user };
            events.push((of_suppression, Event::TargetSuppressed(suppressed)));
        }
        let mut outcomes = Vec::with_capacity(events.len());
        for ((name, id), event) in events {
            match new_event(job, name, id, event) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => tracing::error!(%error, "cannot encode an outcome; not publishing it"),
            }
        }
        let appended = self.ledger.outcomes.call(outcomes).await;
        match appended.map_err(anyhow::Error::from).and_then(|appended| Ok(appended?)) {
            Ok(()) => {
                sabotage::reach(CrashPoint::BeforeAck);
                job.work_stream.acknowledge(job.delivered).await;
            }
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot publish the outcome; trying again when the job is redelivered"
                );
                job.work_stream.return_later(job.delivered).await;
            }
        }
    }

    /// Returns true if the job's answer suppressed its target and the target is still suppressed. A target that was registered
    /// again is no longer suppressed.
    async fn has_suppressed(&self, job: &Job<'_>, reason: Option<Reason>) -> Result<bool, store::Error> {
        match reason {
            Some(Reason::TargetGone) => {
                self.context.store.deliveries().has_suppressed(job.envelope.app, job.order.delivery_id).await
            }
            _ => Ok(false),
        }
    }
}

/// Encodes an event about the outcome of a job.
fn new_event(job: &Job<'_>, name: String, id: Uuid, event: Event) -> Result<NewEvent, serde_json::Error> {
    let Envelope { id: job_id, app, send_id, ref trace, .. } = *job.envelope;
    let (caused_by, trace) = (Some(job_id), trace.clone());
    let envelope = Envelope { id, app, at: clock::now(), send_id, caused_by, trace, event };
    NewEvent::new(StreamName::Outcome, Some(name), &envelope)
}
