//! A lane of jobs: fetches them from the log, starts a task for each, and ends them there.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Channel, Envelope, Event, Lane, StreamName, Timestamp};
use event_log::{Consumer, ConsumerSettings, DeliveredMessage};
use service_kit::append::MAX_JOBS;
use service_kit::pace::Pace;
use service_kit::work_stream::{Owner, WorkStream};
use service_kit::{Context, clock};
use store::deliveries::timer::{NewTimer, Wait};
use tokio::task::JoinSet;

use crate::ChannelSender;
use crate::attempt::Worker;
use crate::jobs_in_hand::{JobInHand, JobsInHand};

const WAIT: Duration = Duration::from_secs(1);
/// Time between two fetches, from the end of the first, unless it returned all that may start.
const PACE: Duration = Duration::from_millis(8);
/// Limit over all workers of the channel, enough for 16 workers by default.
const MAX_ACK_PENDING: i64 = 8_192;
/// Size in bytes. A task is moved several times, so its large parts are boxed.
const MAX_TASK: usize = 4 * 1024;

pub(crate) async fn open(
    context: &Context,
    channel: Channel,
    lane: Lane,
) -> Result<Consumer, event_log::Error> {
    let settings =
        ConsumerSettings { ack_wait: context.config.delivery.ack_wait, max_ack_pending: MAX_ACK_PENDING };
    context.consumer(StreamName::Job(channel, lane), channel.as_str(), settings).await
}

/// Processes a lane until the process stops. Fetched jobs that have not started are returned to the log at once.
pub(crate) async fn run<S: ChannelSender>(
    context: Context,
    worker: Arc<Worker<S>>,
    consumer: Consumer,
    lane: Lane,
) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let work_stream = WorkStream::new(context.store.clone(), StreamName::Job(S::CHANNEL, lane));
    let in_hand = JobsInHand::new(context.config.delivery.max_concurrency);
    let mut running: JoinSet<()> = JoinSet::new();
    // Number of jobs in the largest recent bundle. Fewer messages are fetched if they contain several jobs.
    let mut bundled = MAX_JOBS;
    let mut pace = Pace::new(PACE);
    while let Some(free_slots) = token.run_until_cancelled(in_hand.free_slots()).await {
        while let Some(ended) = running.try_join_next() {
            reap(&ended);
        }
        // A fetch must not be cancelled: jobs that it had already received would be redelivered only after `ack_wait`.
        let most = free_slots.div_ceil(bundled);
        match consumer.fetch(most, WAIT).await {
            Ok(messages) => {
                pace.begin();
                let is_small = messages.len() < most;
                for delivered in messages {
                    if work_stream.is_suspect(&delivered) {
                        // A suspect may have to wait for others.
                        let (worker, work_stream) = (Arc::clone(&worker), work_stream.clone());
                        let place = in_hand.add(delivered.payload.len());
                        running.spawn(handle_suspect(worker, work_stream, delivered, lane, place));
                        continue;
                    }
                    let jobs = work_stream.decode(delivered).await;
                    bundled = jobs.len().max(bundled / 2).max(1);
                    for job in jobs {
                        let (worker, work_stream) = (Arc::clone(&worker), work_stream.clone());
                        let place = in_hand.add(job.0.payload.len());
                        let task = async move { worker.handle(&work_stream, job, lane, place).await };
                        debug_assert!(size_of_val(&task) <= MAX_TASK, "{} bytes", size_of_val(&task));
                        running.spawn(task);
                    }
                }
                if is_small {
                    pace.ready().await;
                }
            }
            Err(error) => {
                tracing::warn!(channel = %S::CHANNEL, %lane, %error, "cannot fetch jobs; trying again");
            }
        }
    }
    if let Err(error) = consumer.release().await {
        tracing::warn!(
            channel = %S::CHANNEL, %lane, %error,
            "cannot return unhandled jobs to the log while stopping; the log will redeliver them after `ack_wait`"
        );
    }
    while let Some(ended) = running.join_next().await {
        reap(&ended);
    }
    Ok(())
}

/// The jobs of a bundle are published again, each alone.
async fn handle_suspect<S: ChannelSender>(
    worker: Arc<Worker<S>>,
    work_stream: WorkStream,
    delivered: DeliveredMessage,
    lane: Lane,
    place: JobInHand,
) {
    let mut jobs = work_stream.decode(delivered).await;
    if let Some(job) = jobs.pop() {
        worker.handle(&work_stream, job, lane, place).await;
    }
}

/// If the task of a job panicked outside of its call, the log redelivers the job. A worker then retries the job after the lease of its
/// claim has ended.
fn reap(ended: &Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a job panicked; the log will redeliver the job");
    }
}

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
        wait: Wait,
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
            wait: Some(wait),
        })
    }
}

fn missing_limit(ack_wait: Duration) -> i32 {
    let times = MISSING_FOR.as_millis() / ack_wait.as_millis().max(1);
    i32::try_from(times).unwrap_or(i32::MAX).max(1)
}
