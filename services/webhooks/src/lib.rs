//! Status webhooks: notify the backends of apps when a delivery reaches a final state and when a user reads an item. [`messages`] are
//! stored in the transaction that moves the checkpoint, and sent from there.

pub mod call;
mod messages;
mod notices;
mod sender;
mod settler;
mod slot;
mod sweeper;

use std::time::Duration;

use domain::StreamName;
use service_kit::config::Webhooks;
use service_kit::{Context, plans};
use store::webhooks::Pace;

pub use call::{Answer, Caller};
pub use credentials::webhook::{self as signature, Secret};

const SLOT_LIMIT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Settings {
    /// Delays after the first, second, … failed attempt, each ±20 %. If the attempt after the last delay also fails, the service gives up
    /// on the message.
    pub schedule: Vec<Duration>,
    /// Age at which the service gives up on a message even if attempts remain. Applies only to endpoints that have been failing for that
    /// long.
    pub give_up_after: Duration,
    /// Time limit of one call, including the whole answer.
    pub call_limit: Duration,
    /// Concurrent calls of one process.
    pub max_concurrency: usize,
    /// Time after the claim at which a call slot releases the messages that it has not sent.
    pub slot_limit: Duration,
    /// Time between two wakes of all apps. They find the messages that a killed process had passed over.
    pub wake_every: Duration,
    pub pace: Pace,
}

impl Settings {
    #[must_use]
    pub fn new(config: &Webhooks) -> Self {
        Settings {
            schedule: config.retry_schedule.clone(),
            give_up_after: Duration::from_secs(24 * 3600),
            call_limit: config.timeout,
            max_concurrency: 256,
            slot_limit: SLOT_LIMIT,
            wake_every: Duration::from_secs(600),
            pace: Pace {
                // One timeout is for the last call, the other for recording its result.
                lease: SLOT_LIMIT + config.timeout * 2,
                per_endpoint: 8,
                // An eighth of the concurrent calls.
                per_app: 32,
                failures: 5,
                pause: config.retry_schedule.first().copied().unwrap_or(config.timeout),
                longest_pause: Duration::from_secs(300),
                per_slot: 16,
            },
        }
    }
}

/// Several processes share the work.
pub async fn run(context: Context) -> anyhow::Result<()> {
    let settings = Settings::new(&context.config.webhooks);
    run_with(context, settings).await
}

pub async fn run_with(context: Context, settings: Settings) -> anyhow::Result<()> {
    let streams = (0..context.partitions).map(StreamName::Inbox).chain([StreamName::Outcome]);
    for stream in streams {
        let follower = messages::Messages::follower(&context, stream);
        context.spawn("webhook follower", follower.follow(context.log.clone(), context.tasks.clone()));
    }
    context.spawn("pinned plans", plans::pin_with_statistics(context.clone(), &["webhook_message"]));
    context.spawn("webhook sweeper", sweeper::run(context.clone(), settings.give_up_after));
    let sender = sender::WebhookSender::new(&context, settings)?;
    context.spawn("webhook sender", sender.run());
    context.tasks.stopping().await;
    Ok(())
}
