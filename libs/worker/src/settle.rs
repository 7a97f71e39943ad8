//! The second half of a job: its answer is written, told and acknowledged.

use std::time::Duration;

use bytes::Bytes;
use domain::event::{DeliveryJob, DeliverySettled, TargetSuppressed};
use domain::{Envelope, Event, Outcome, Reason, Status, StreamName};
use event_log::{Message, PublishError, Refusal};
use metrics::counter;
use service_kit::clock;
use service_kit::inbound::Owner;
use service_kit::metrics::DELIVERIES;
use store::Store;
use store::ledger::DeliveryState;
use store::settlement::Settlement;
use store::timer::NewTimer;
use uuid::Uuid;

use crate::Sender;
use crate::job::{Job, Worker};

/// Between two tries to settle.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// How long tries to settle go on once the process stops; its tasks may take 30 s.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(20);

impl<S: Sender> Worker<S> {
    /// Settles, however long the database takes, and for a while yet when the process stops: the answer must not be
    /// lost while somebody is left who knows it.
    pub(crate) async fn settle(&self, job: &Job<'_>, settlement: Settlement) {
        let written = tokio::select! {
            written = self.write(job, &settlement) => written,
            () = self.stopped_long_ago() => {
                tracing::error!(code = settlement.answer.code, "an answer is lost: stopped before it could be settled");
                return;
            }
        };
        match written {
            Ok(true) => {}
            Ok(false) => return self.after_losing_the_claim(job).await,
            Err(refused) => {
                let owner = Owner { app: Some(job.envelope.app), send_id: job.envelope.send_id };
                return job.inbound.failed_by_itself(job.delivered, owner, &refused.to_string()).await;
            }
        }
        let (status, reason) = settlement.next.status();
        counter!(DELIVERIES, "channel" => S::CHANNEL.as_str(), "status" => status.as_str()).increment(1);
        let code = &settlement.answer.code;
        match status {
            Status::Sent => tracing::debug!(code, "sent"),
            _ => tracing::info!(code, %status, reason = reason.map(Reason::as_str), "not sent"),
        }
        let dead = settlement.answer.outcome == Outcome::TargetGone;
        self.publish(job, status, reason, settlement.provider, dead).await;
    }

    /// Tries until the database has written the answer, says that the claim is lost, or refuses the answer itself.
    async fn write(&self, job: &Job<'_>, settlement: &Settlement) -> Result<bool, store::Error> {
        loop {
            match self.settlements.call(settlement.clone()).await.flatten() {
                Ok(held) => return Ok(held),
                Err(error) if error.is_refused_data() => return Err(error),
                Err(error) => tracing::warn!(%error, "not settled yet"),
            }
            if let Err(error) = job.delivered.in_progress().await {
                tracing::debug!(%error, "the log does not hear that the job is under way");
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    async fn stopped_long_ago(&self) {
        self.context.tasks.stopping().await;
        tokio::time::sleep(SETTLE_AFTER_STOP).await;
    }

    /// Somebody else settled, or holds the delivery now.
    async fn after_losing_the_claim(&self, job: &Job<'_>) {
        let named = [(job.envelope.app, job.order.delivery_id)];
        match self.context.store.delivery_states(&named).await {
            Ok(states) => match states.first() {
                Some(state) if state.status != Status::Sending => self.conclude(job, state).await,
                // An acknowledgement counts for the message, whoever sends it; its holder will.
                _ => tracing::warn!("the claim was lost"),
            },
            Err(error) => tracing::warn!(%error, "the claim was lost, and the ledger cannot be read"),
        }
    }

    /// Publishes the stored outcome of the job's attempt again: whoever settled it may not have come so far.
    pub(crate) async fn conclude(&self, job: &Job<'_>, state: &DeliveryState) {
        let (status, reason) =
            if state.attempt == job.order.attempt || state.is_parked_after(job.order.attempt) {
                (state.status, state.reason)
            } else {
                (Status::Retrying, None)
            };
        let dead = reason == Some(Reason::TargetGone);
        self.publish(job, status, reason, state.provider.clone(), dead).await;
    }

    /// Tells the outcome, then acknowledges the job. What is not confirmed is told when the job comes again.
    async fn publish(
        &self,
        job: &Job<'_>,
        status: Status,
        reason: Option<Reason>,
        provider: Option<String>,
        dead: bool,
    ) {
        let DeliveryJob { delivery_id, attempt, user, .. } = *job.order;
        let channel = S::CHANNEL;
        let settled = DeliverySettled { delivery_id, channel, user, attempt, status, reason, provider };
        let mut events = vec![("settled", Event::DeliverySettled(settled))];
        if dead {
            events.push((
                "suppressed",
                Event::TargetSuppressed(TargetSuppressed { delivery_id, channel, user }),
            ));
        }
        let mut messages = Vec::with_capacity(events.len());
        for (what, event) in events {
            let name = format!("{delivery_id}.{what}.{attempt}");
            let id = Uuid::new_v5(&delivery_id.0, name.as_bytes());
            let envelope = Envelope {
                id,
                at: clock::now(),
                caused_by: Some(job.envelope.id),
                event,
                ..job.envelope.clone()
            };
            match envelope.encode() {
                Ok(payload) => messages.push(Message {
                    stream: StreamName::Outcome,
                    id: Some(name),
                    payload: Bytes::from(payload),
                }),
                Err(error) => tracing::error!(%error, "an outcome cannot be written"),
            }
        }
        match self.append(job, messages).await {
            Ok(()) => job.inbound.done(job.delivered).await,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the outcome is not kept; the job comes again");
                job.inbound.again(job.delivered).await;
            }
        }
    }

    /// Appends to the log; what a full stream refuses becomes a timer.
    async fn append(&self, job: &Job<'_>, messages: Vec<Message>) -> anyhow::Result<()> {
        let results = self.context.log.publish_all(messages.clone()).await;
        let mut refused = Vec::new();
        for (message, result) in messages.into_iter().zip(results) {
            match result {
                Ok(_) => {}
                Err(PublishError::Refused { refusal: Refusal::Full, .. }) => refused.push(NewTimer {
                    id: clock::new_id(),
                    due_at: clock::now(),
                    stream: message.stream,
                    message: message.payload.to_vec(),
                    app: job.envelope.app,
                    send_id: job.envelope.send_id,
                    user: None,
                }),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.context.store.set_timers(&refused).await?)
    }
}

/// Settles in one transaction; where the database refuses that, each in its own, so that the one at fault stops no other.
///
/// # Errors
/// The database is away; what was settled before is found so when it is repeated.
pub(crate) async fn settle_each(
    store: &Store,
    settlements: &[Settlement],
) -> Result<Vec<Result<bool, store::Error>>, store::Error> {
    match store.settle(settlements).await {
        Ok(held) => return Ok(held.into_iter().map(Ok).collect()),
        Err(error) if error.is_unavailable() => return Err(error),
        Err(error) if settlements.len() == 1 => return Ok(vec![Err(error)]),
        Err(error) => {
            tracing::warn!(%error, batch = settlements.len(), "refused together, now settled one by one");
        }
    }
    let mut each = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        match store.settle(std::slice::from_ref(settlement)).await {
            Err(error) if error.is_unavailable() => return Err(error),
            settled => each.push(settled.map(|held| held.contains(&true))),
        }
    }
    Ok(each)
}
