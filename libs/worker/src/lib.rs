//! What all channel workers share: from a job of the log to a provider's call to a settled delivery.
//!
//! A worker is a [`Sender`]; everything else is here. [`run`] fetches jobs, each of which goes through [`job`]
//! (claim, call) and [`settle`] (settle, outcome event, acknowledgement). Claims and settlements of concurrent jobs
//! share statements.

mod job;
mod lane;
mod provider;
mod settle;

use std::sync::Arc;

use anyhow::Context as _;
use domain::event::DeliveryJob;
use domain::{Answer, Channel, Lane};
use service_kit::Context;

pub use provider::Provider;

/// Makes the calls of one channel.
pub trait Sender: Send + Sync + 'static {
    /// The channel.
    const CHANNEL: Channel;

    /// Makes one attempt. It may be dropped at any time and must then leave nothing half done behind that a later
    /// attempt could take up.
    fn send(&self, provider: &Provider, job: &DeliveryJob) -> impl Future<Output = Answer> + Send;
}

/// Runs a channel's worker until the process stops: both lanes, each with its own bound on concurrent attempts, so
/// that bulk never delays transactional.
///
/// # Errors
/// The log refuses the consumers that it needs.
pub async fn run<S: Sender>(context: Context, sender: S) -> anyhow::Result<()> {
    let worker = Arc::new(job::Worker::new(&context, sender));
    for &lane in Lane::ALL {
        let consumer = lane::open(&context, S::CHANNEL, lane).await.context("the jobs cannot be consumed")?;
        context.spawn("worker lane", lane::run(context.clone(), Arc::clone(&worker), consumer, lane));
    }
    context.tasks.stopping().await;
    Ok(())
}
