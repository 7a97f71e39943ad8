//! Status webhooks: apps' backends are told what became of their deliveries, and what was read.
//!
//! [`follower`] reads what happened from the log, [`telling`] makes messages of it, which are rows from then on, written
//! in the transaction that moves the checkpoint; [`teller`] takes due rows and [`call`]s the endpoints, each attempt
//! signed as [`signature`] says, and [`settler`] writes down what came of them; [`sweeper`] gives up, removes and counts what is left.

pub mod call;
mod follower;
mod settler;
pub mod signature;
mod sweeper;
mod teller;
mod telling;

use std::time::Duration;

use domain::StreamName;
use service_kit::Context;
use service_kit::config::Webhooks;
use store::webhooks::Pace;

pub use call::{Answer, Caller};
pub use signature::Secret;

/// How messages are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Delay after each failed attempt, ±20 %; after the last, a message is given up.
    pub schedule: Vec<Duration>,
    /// Age at which messages for an endpoint that has failed all the while are given up, whatever the attempts.
    pub give_up_after: Duration,
    /// For one call, the whole answer included.
    pub call_limit: Duration,
    /// Calls that one process makes at the same time.
    pub max_concurrency: usize,
    /// How endpoints are treated.
    pub pace: Pace,
}

impl Settings {
    /// As the configuration says.
    #[must_use]
    pub fn new(config: &Webhooks) -> Self {
        Settings {
            schedule: config.retry_schedule.clone(),
            give_up_after: Duration::from_secs(24 * 3600),
            call_limit: config.timeout,
            max_concurrency: 256,
            pace: Pace {
                // A call, and as long again to write down what came of it.
                lease: config.timeout * 2,
                per_endpoint: 8,
                // An eighth of the calls.
                per_app: 32,
                failures: 5,
                pause: config.retry_schedule.first().copied().unwrap_or(config.timeout),
                longest_pause: Duration::from_secs(300),
            },
        }
    }
}

/// Runs the webhooks until the process stops. Several instances share the work.
///
/// # Errors
/// TLS cannot be set up.
pub async fn run(context: Context) -> anyhow::Result<()> {
    let settings = Settings::new(&context.config.webhooks);
    run_with(context, settings).await
}

/// As [`run`], with other settings.
///
/// # Errors
/// As for [`run`].
pub async fn run_with(context: Context, settings: Settings) -> anyhow::Result<()> {
    let streams = (0..context.partitions).map(StreamName::Inbox).chain([StreamName::Outcome]);
    for stream in streams {
        context.spawn("webhook follower", follower::Follower::new(&context, stream).follow());
    }
    context.spawn("webhook sweeper", sweeper::run(context.clone(), settings.give_up_after));
    let teller = teller::Teller::new(&context, settings)?;
    context.spawn("webhook teller", teller.run());
    context.tasks.stopping().await;
    Ok(())
}
