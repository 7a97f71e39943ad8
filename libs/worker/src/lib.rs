//! Shared code of all channel workers. It turns a job from the log into a call to a provider and a settled delivery.
//!
//! A channel implements [`ChannelSender`], and a [`ProviderKind`] for each kind of its providers; this crate contains
//! everything else. [`run`] fetches jobs, as many as [`jobs_in_hand`] allows. [`attempt`] is the life of one attempt: it admits the
//! job, claims the delivery, calls the provider, settles the answer and publishes the outcome. Concurrent jobs share SQL statements
//! and messages ([`ledger_batches`]).

mod admission;
mod attempt;
mod budget;
mod call;
pub mod exchange;
mod job;
mod jobs_in_hand;
mod lane;
mod lease;
mod ledger_batches;
pub mod outbound;
mod outcome;
mod provider;
mod provider_kind;
mod rate;
mod shares;
mod slots;
pub mod verdict;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Lane, SendId, Timestamp};
use service_kit::Context;

pub use lease::Lease;
pub use outbound::Outbound;
pub use provider::{Provider, ProviderVersion, open_secrets};
pub use provider_kind::{
    Attempt, ChannelKind, ChannelResources, Kind, OpenProviders, Probe, ProviderKind, probe, unusable,
};
pub use verdict::{Refusals, Verdict};

/// Code of one channel: makes the attempts of its deliveries.
pub trait ChannelSender: Send + Sync + 'static {
    const CHANNEL: Channel;

    /// True if the channel's providers send receipts for accepted messages (see [`store::deliveries::receipt`]). The job is
    /// then stored until the receipt arrives, and is used to send the message again if the receipt reports a failure.
    const RECEIPTS: bool = false;

    /// Data that a call needs and that is looked up before the call may start. It is `()` for a channel that looks nothing up.
    type Prepared: Send + Sync;

    /// Prepares the call of a claimed delivery, before the call waits for others. Deliveries are claimed together, so their look-ups
    /// can share one statement. The worker ends a preparation that takes longer than five seconds.
    ///
    /// # Errors
    /// Returns the answer that ends the attempt, because the call cannot be made.
    fn prepare(
        &self,
        app: AppId,
        job: &DeliveryJob,
    ) -> impl Future<Output = Result<Self::Prepared, Answer>> + Send;

    /// Makes one attempt. The future may be dropped at any time and must not leave state behind that affects later attempts.
    fn send(&self, call: &Call<'_>, prepared: Self::Prepared) -> impl Future<Output = Answer> + Send;

    /// Returns the maximum duration of a call to this provider, if it needs longer than the usual limit of three fifths of the lease
    /// (`delivery.lease`). The worker renews its claim while a call is under way.
    fn longest_call(&self, _provider: &Provider) -> Option<Duration> {
        None
    }

    /// Returns the host that the target names, if any. For example, a web push subscription names its push service. Failures of
    /// the call then count against this host and not against the provider.
    fn host(&self, _target: &str) -> Option<String> {
        None
    }

    /// Returns true if a provider of this kind can reach the target.
    fn serves(_kind: &str, _target: &str) -> bool {
        true
    }
}

/// One attempt to make.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub lane: Lane,
    pub provider: &'a Provider,
    /// Target and content.
    pub job: &'a DeliveryJob,
    /// Start of the attempt.
    pub now: Timestamp,
    /// Time for which this call may still start to send its message.
    pub lease: &'a Lease,
}

/// Runs a channel's worker until the process stops. Each of the two lanes has its own limit of concurrent attempts, so that
/// bulk sends never delay transactional ones.
///
/// # Errors
/// Returns an error if the consumers of the jobs cannot be opened.
pub async fn run<S: ChannelSender>(context: Context, sender: S) -> anyhow::Result<()> {
    context.store.pin_plans();
    let worker = Arc::new(attempt::Worker::new(&context, sender));
    for &lane in Lane::ALL {
        let consumer = lane::open(&context, S::CHANNEL, lane).await.context("cannot open the consumer")?;
        context.spawn("worker lane", lane::run(context.clone(), Arc::clone(&worker), consumer, lane));
    }
    context.tasks.stopping().await;
    Ok(())
}
