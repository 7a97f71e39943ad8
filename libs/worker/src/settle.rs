//! Settlement of an attempt. Only the worker that holds the claim may record the answer.

use std::time::Duration;

use domain::{Reason, Status};
use metrics::counter;
use sabotage::CrashPoint;
use service_kit::metrics::DELIVERIES;
use store::deliveries::settlement::Settlement;

use crate::ChannelSender;
use crate::job::{Job, Worker};

/// Pause between two tries to settle an attempt.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// Time for which settling is retried after the process starts to stop. The process waits 30 s for its tasks before it exits.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(25);

impl<S: ChannelSender> Worker<S> {
    /// Settles the attempt and publishes its outcome. While the database is unavailable, retries without a limit, because only
    /// this task has the provider's answer. After the process starts to stop, it retries for 25 s.
    pub(crate) async fn settle(&self, job: &Job<'_>, settlement: Settlement) {
        let written = tokio::select! {
            written = self.record_outcome(job, settlement) => written,
            () = self.stopped_for(SETTLE_AFTER_STOP) => {
                tracing::error!("the process is stopping, and the provider's answer could not be settled; the answer is lost");
                return;
            }
        };
        let Some(settlement) = written else { return };
        sabotage::reach(CrashPoint::AfterSettle);
        let (status, reason) = settlement.next.status();
        counter!(DELIVERIES, "channel" => S::CHANNEL.as_str(), "status" => status.as_str()).increment(1);
        let code = &settlement.answer.code;
        match status {
            Status::Sent => tracing::debug!(code, "sent the delivery"),
            _ => {
                let reason = reason.map(Reason::as_str);
                tracing::info!(code, %status, reason, "the delivery was not sent");
            }
        }
        self.publish_outcome(job, status, reason, settlement.provider).await;
    }

    /// Records the outcome. If PostgreSQL rejects the provider's answer, records it without the provider's text. If PostgreSQL
    /// rejects that too, records only the status. Otherwise the job would be retried and the provider called again, only because
    /// PostgreSQL cannot store a text. Returns the recorded settlement, or None if this worker lost the claim or parked the job.
    async fn record_outcome(&self, job: &Job<'_>, settlement: Settlement) -> Option<Settlement> {
        let mut settlement = settlement;
        let mut settled = self.write(&settlement).await;
        if let Err(refused) = &settled {
            tracing::error!(
                error = %refused,
                "PostgreSQL rejected the provider's answer; recording it without the provider's text"
            );
            settlement = settlement.without_provider_text();
            settled = self.write(&settlement).await;
        }
        if let Err(refused) = &settled {
            tracing::error!(error = %refused, "PostgreSQL rejected the attempt; recording its status only");
            settlement = settlement.status_only();
            settled = self.context.store.deliveries().settle_status_only(&settlement).await;
        }
        match settled {
            Ok(true) => return Some(settlement),
            Ok(false) => self.after_losing_the_claim(job).await,
            Err(refused) => self.park(job, &refused.to_string()).await,
        }
        None
    }

    /// Parks a job whose provider was called but whose outcome cannot be recorded. A retry would call the provider again.
    async fn park(&self, job: &Job<'_>, cause: &str) {
        loop {
            match job.work_stream.park(job.delivered, job.owner(), cause).await {
                Ok(()) => return job.work_stream.acknowledge(job.delivered).await,
                Err(error) if error.is_refused_data() => {
                    return job.work_stream.count_failure(job.delivered, job.owner(), cause).await;
                }
                Err(error) => tracing::warn!(%error, "cannot park the delivery; trying again"),
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    /// Writes a settlement. Retries until the database has recorded or rejected it. Returns false if the claim is lost.
    async fn write(&self, settlement: &Settlement) -> Result<bool, store::Error> {
        loop {
            match self.ledger.settlements.call(settlement.clone()).await.flatten() {
                Ok(held) => return Ok(held),
                Err(error) if error.is_refused_data() => return Err(error),
                Err(error) => tracing::warn!(%error, "cannot settle the delivery; trying again"),
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    /// Handles a lost claim: another worker has settled the delivery, or has claimed it and is still working.
    pub(crate) async fn after_losing_the_claim(&self, job: &Job<'_>) {
        let named = [(job.envelope.app, job.order.delivery_id)];
        match self.context.store.deliveries().delivery_states(&named).await {
            Ok(states) => match states.first() {
                Some(state) if state.status != Status::Sending => self.republish_outcome(job, state).await,
                // Do not acknowledge the job: the worker that has the claim does that later.
                _ => tracing::warn!("another worker has claimed the delivery; leaving it to that worker"),
            },
            Err(error) => {
                tracing::warn!(
                    %error,
                    "cannot read the state of a delivery that another worker has claimed; leaving the delivery to that worker"
                );
            }
        }
    }
}
