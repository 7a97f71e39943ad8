use std::pin::pin;
use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Channel, Envelope, Event, Lane, StreamName, Timestamp};
use event_log::DeliveredMessage;
use service_kit::clock;
use service_kit::work_stream::{Owner, WorkStream};
use store::deliveries::timer::NewTimer;

/// Time that a restore may need to plan missing sends again.
const MISSING_FOR: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) work_stream: &'a WorkStream,
    pub(crate) delivered: &'a DeliveredMessage,
    pub(crate) channel: Channel,
    pub(crate) lane: Lane,
    pub(crate) envelope: &'a Envelope,
    pub(crate) order: &'a DeliveryJob,
}

#[derive(Debug)]
pub(crate) enum JobEnd {
    Acknowledge,
    /// The attempt has not begun; another worker may start it at once.
    ReturnNow,
    ReturnLater,
    ReturnAfter(Duration),
    /// The job itself is at fault. It is parked after several failures.
    Failed(String),
    /// The job stays unacknowledged. Another worker acknowledges it, or the log delivers it again after `ack_wait`.
    Leave,
    /// The delivery is missing from the database. The job stays unacknowledged, and is parked after a day of redeliveries.
    Missing {
        ack_wait: Duration,
    },
}

impl Job<'_> {
    pub(crate) fn owner(&self) -> Owner {
        Owner { app: Some(self.envelope.app), send_id: self.envelope.send_id }
    }

    pub(crate) fn stream(&self) -> StreamName {
        StreamName::Job(self.channel, self.lane)
    }

    /// Reports progress three times per `ack_wait`, so that the log does not redeliver the job.
    pub(crate) async fn with_progress_reports(&self, ack_wait: Duration, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        while tokio::time::timeout(ack_wait / 3, &mut work).await.is_err() {
            if let Err(error) = self.delivered.in_progress().await {
                tracing::debug!(%error, "cannot report to the log that the job is in progress; the log may redeliver it");
            }
        }
    }

    pub(crate) async fn end(&self, end: JobEnd) {
        let Job { work_stream, delivered, .. } = self;
        match end {
            JobEnd::Acknowledge => work_stream.acknowledge(delivered).await,
            JobEnd::ReturnNow => work_stream.return_now(delivered).await,
            JobEnd::ReturnLater => work_stream.return_later(delivered).await,
            JobEnd::ReturnAfter(delay) => work_stream.return_after(&[delivered], delay).await,
            JobEnd::Failed(cause) => work_stream.count_failure(delivered, self.owner(), &cause).await,
            JobEnd::Leave => work_stream.leave(delivered).await,
            JobEnd::Missing { ack_wait } => {
                let cause = "the delivery is missing from the database";
                work_stream.leave_or_park(delivered, self.owner(), cause, missing_limit(ack_wait)).await;
            }
        }
    }

    pub(crate) fn timer(
        &self,
        due_at: Timestamp,
        order: Box<DeliveryJob>,
    ) -> Result<NewTimer, serde_json::Error> {
        let id = clock::new_id();
        let event = Event::DeliveryJob(order);
        let caused_by = Some(self.envelope.id);
        let envelope = Envelope { id, at: clock::now(), caused_by, event, ..self.envelope.clone() };
        Ok(NewTimer {
            id,
            due_at,
            stream: self.stream(),
            message: envelope.encode()?,
            app: self.envelope.app,
            send_id: self.envelope.send_id,
            user: Some(self.order.user),
        })
    }
}

fn missing_limit(ack_wait: Duration) -> i32 {
    let times = MISSING_FOR.as_millis() / ack_wait.as_millis().max(1);
    i32::try_from(times).unwrap_or(i32::MAX).max(1)
}
