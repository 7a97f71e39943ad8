//! The second half of a job: its answer is written, by the holder of the claim alone.

use std::time::Duration;

use domain::{Reason, Status};
use metrics::counter;
use sabotage::CrashPoint;
use service_kit::metrics::DELIVERIES;
use store::deliveries::settlement::Settlement;

use crate::ChannelSender;
use crate::job::{Job, Worker};

/// Between two tries to settle.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);
/// How long tries to settle go on once the process stops; its tasks may take 30 s.
const SETTLE_AFTER_STOP: Duration = Duration::from_secs(25);

impl<S: ChannelSender> Worker<S> {
    /// Settles, however long the database takes, and for a while yet when the process stops: the answer must not be
    /// lost while somebody is left who knows it.
    pub(crate) async fn settle(&self, job: &Job<'_>, settlement: Settlement) {
        let written = tokio::select! {
            written = self.write_what_can_be(job, settlement) => written,
            () = self.stopped_for(SETTLE_AFTER_STOP) => {
                tracing::error!("an answer is lost: stopped before it could be settled");
                return;
            }
        };
        let Some(settlement) = written else { return };
        sabotage::reach(CrashPoint::AfterSettle);
        let (status, reason) = settlement.next.status();
        counter!(DELIVERIES, "channel" => S::CHANNEL.as_str(), "status" => status.as_str()).increment(1);
        let code = &settlement.answer.code;
        match status {
            Status::Sent => tracing::debug!(code, "sent"),
            _ => tracing::info!(code, %status, reason = reason.map(Reason::as_str), "not sent"),
        }
        self.publish(job, status, reason, settlement.provider).await;
    }

    /// Writes the answer; where the database refuses it, less of it, and at last the state that it leads to alone: a
    /// provider that was called must not be called again for what it said. Returns what was written; None where that
    /// is another's affair by now.
    async fn write_what_can_be(&self, job: &Job<'_>, settlement: Settlement) -> Option<Settlement> {
        let mut settlement = settlement;
        let mut settled = self.write(&settlement).await;
        if let Err(refused) = &settled {
            tracing::error!(error = %refused, "the database refuses an answer, which is settled without its words");
            settlement = settlement.reduced();
            settled = self.write(&settlement).await;
        }
        if let Err(refused) = &settled {
            tracing::error!(error = %refused, "the database refuses an attempt, whose end alone is settled");
            settlement = settlement.bare();
            settled = self.context.store.settle_barely(&settlement).await;
        }
        match settled {
            Ok(true) => return Some(settlement),
            Ok(false) => self.after_losing_the_claim(job).await,
            Err(refused) => self.set_aside(job, &refused.to_string()).await,
        }
        None
    }

    /// Parks a job whose provider was called and whose end cannot be written: were it left, it would call again.
    async fn set_aside(&self, job: &Job<'_>, cause: &str) {
        loop {
            match job.inbound.set_aside(job.delivered, job.owner(), cause).await {
                Ok(()) => return job.inbound.done(job.delivered).await,
                Err(error) if error.is_refused_data() => {
                    return job.inbound.failed_by_itself(job.delivered, job.owner(), cause).await;
                }
                Err(error) => tracing::warn!(%error, "not parked yet"),
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    /// Tries until the database has written the answer, says that the claim is lost, or refuses the answer itself.
    async fn write(&self, settlement: &Settlement) -> Result<bool, store::Error> {
        loop {
            match self.ledger.settlements.call(settlement.clone()).await.flatten() {
                Ok(held) => return Ok(held),
                Err(error) if error.is_refused_data() => return Err(error),
                Err(error) => tracing::warn!(%error, "not settled yet"),
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    /// Somebody else settled, or holds the delivery now.
    pub(crate) async fn after_losing_the_claim(&self, job: &Job<'_>) {
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
}
