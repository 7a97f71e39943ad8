use std::sync::Arc;
use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use event_log::{Consumer, ConsumerSettings, DeliveredMessage};
use service_kit::Context;
use service_kit::append::MAX_JOBS;
use service_kit::work_stream::WorkStream;
use tokio::task::JoinSet;

use crate::ChannelSender;
use crate::attempt::Worker;
use crate::jobs_in_hand::{JobInHand, JobsInHand};

const WAIT: Duration = Duration::from_secs(1);
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
    while let Some(free_slots) = token.run_until_cancelled(in_hand.free_slots()).await {
        while let Some(ended) = running.try_join_next() {
            reap(&ended);
        }
        // A fetch must not be cancelled: jobs that it had already received would be redelivered only after `ack_wait`.
        match consumer.fetch(free_slots.div_ceil(bundled), WAIT).await {
            Ok(messages) => {
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
