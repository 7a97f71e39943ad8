//! One lane of a channel: as many jobs at once as allowed, fetched as they can be started.

use std::sync::Arc;
use std::time::Duration;

use domain::{Channel, Lane, StreamName};
use event_log::{Consumer, ConsumerSettings};
use service_kit::Context;
use service_kit::inbound::Inbound;
use tokio::task::JoinSet;

use crate::ChannelSender;
use crate::job::Worker;

/// How long to wait for a first job.
const WAIT: Duration = Duration::from_secs(1);
/// Jobs that the log may have handed out unacknowledged, over all workers of the channel.
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

/// Works through a lane until the process stops, then finishes what is under way. What was fetched by then and not
/// begun with goes back at once.
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
        // Not dropped on the way: what it brings could be given back to nobody.
        match consumer.fetch(room, WAIT).await {
            Ok(jobs) => {
                for delivered in jobs {
                    let (worker, inbound) = (Arc::clone(&worker), inbound.clone());
                    running.spawn(async move { worker.handle(&inbound, delivered, lane).await });
                }
            }
            Err(error) => tracing::warn!(channel = %S::CHANNEL, %lane, %error, "no jobs can be fetched"),
        }
    }
    if let Err(error) = consumer.release().await {
        tracing::warn!(channel = %S::CHANNEL, %lane, %error, "a job cannot be given back; it comes again after ack_wait");
    }
    while let Some(ended) = running.join_next().await {
        reap(Some(ended));
    }
    Ok(())
}

/// How many jobs can be started now, at least one: a job that waits here would be kept from other workers.
async fn room(most: usize, running: &mut JoinSet<()>) -> usize {
    while let Some(ended) = running.try_join_next() {
        reap(Some(ended));
    }
    if running.len() >= most {
        reap(running.join_next().await);
    }
    most - running.len()
}

/// A job that panicked outside its call comes again after its lease.
fn reap(ended: Option<Result<(), tokio::task::JoinError>>) {
    if let Some(Err(error)) = ended {
        tracing::error!(%error, "a job ended early");
    }
}
