//! One lane of a channel: runs jobs up to the allowed concurrency, and fetches only as many jobs as can start.

use std::sync::Arc;
use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use event_log::{Consumer, ConsumerSettings};
use service_kit::Context;
use service_kit::inbound::Inbound;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ChannelSender;
use crate::job::Worker;

/// Maximum time for which a fetch waits for its first job.
const WAIT: Duration = Duration::from_secs(1);
/// Time for which a fetch is delayed until a quarter of the jobs can start, so that one fetch returns several jobs.
const GATHERING: Duration = Duration::from_millis(1);
/// Maximum number of unacknowledged jobs of all workers of the channel.
const MAX_ACK_PENDING: i64 = 1_000;

pub(crate) async fn open(
    context: &Context,
    channel: Channel,
    lane: Lane,
) -> Result<Consumer, event_log::Error> {
    let settings =
        ConsumerSettings { ack_wait: context.config.delivery.ack_wait, max_ack_pending: MAX_ACK_PENDING };
    context.consumer(StreamName::Job(channel, lane), channel.as_str(), settings).await
}

/// Processes a lane until the process stops, then finishes the jobs in progress. Fetched jobs that have not started are
/// returned at once.
pub(crate) async fn run<S: ChannelSender>(
    context: Context,
    worker: Arc<Worker<S>>,
    consumer: Consumer,
    lane: Lane,
) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let inbound = Inbound::new(context.store.clone(), StreamName::Job(S::CHANNEL, lane));
    let most = context.config.delivery.max_concurrency;
    let mut running: JoinSet<()> = JoinSet::new();
    while let Some(room) = token.run_until_cancelled(room(most, &mut running)).await {
        // Never cancel a fetch: jobs that it has already received would be stuck until `ack_wait` ends.
        match consumer.fetch(room, WAIT).await {
            Ok(jobs) => {
                for delivered in jobs {
                    let (worker, inbound) = (Arc::clone(&worker), inbound.clone());
                    running.spawn(async move { worker.handle(&inbound, delivered, lane).await });
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
            "cannot release a job; it is redelivered after `ack_wait`"
        );
    }
    while let Some(ended) = running.join_next().await {
        reap(Some(ended));
    }
    Ok(())
}

/// Waits until at least one job can start, and up to a millisecond longer for a quarter of the jobs. Returns the number of jobs
/// that can start. Fetching a job earlier would make it wait here, although another worker might be free.
async fn room(most: usize, running: &mut JoinSet<()>) -> usize {
    while let Some(ended) = running.try_join_next() {
        reap(Some(ended));
    }
    if running.len() >= most {
        reap(running.join_next().await);
    }
    let a_quarter = async {
        while most - running.len() < most.div_ceil(4) {
            reap(running.join_next().await);
        }
    };
    drop(timeout(GATHERING, a_quarter).await);
    most - running.len()
}

/// Collects a finished task. If a job panicked outside its call, the log redelivers the job, and a worker retries it after its
/// lease has expired.
fn reap(ended: Option<Result<(), tokio::task::JoinError>>) {
    if let Some(Err(error)) = ended {
        tracing::error!(%error, "the task of a job panicked; the job is redelivered");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_fetch_waits_a_millisecond_for_a_quarter_of_the_jobs() {
        let ends = Arc::new(Semaphore::new(0));
        let mut running = JoinSet::new();
        assert_eq!(room(32, &mut running).now_or_never(), Some(32), "an idle lane does not wait");
        for _ in 0..32 {
            let ends = Arc::clone(&ends);
            running.spawn(async move { ends.acquire().await.unwrap().forget() });
        }
        ends.add_permits(1);
        assert_eq!(room(32, &mut running).await, 1);
    }
}
