//! Shared code of all channel workers: turns a job from the log into a call to a provider and a settled delivery.
//!
//! A channel implements [`ChannelSender`], and a [`ProviderKind`] for each kind of its providers. [`attempt`] is the life of one attempt.

mod admission;
mod attempt;
mod budget;
mod call;
pub mod exchange;
mod jobs_in_hand;
mod lane;
mod lease;
mod ledger_batches;
pub mod outbound;
mod outcome;
mod provider;
mod provider_kind;
mod provider_tests;
mod refusal;
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

pub trait ChannelSender: Send + Sync + 'static {
    const CHANNEL: Channel;

    /// True if the providers send receipts (see [`store::deliveries::receipt`]). The job is then stored until the receipt arrives, to send
    /// the message again if the receipt reports a failure.
    const RECEIPTS: bool = false;

    /// `()` for a channel that looks nothing up before a call.
    type Prepared: Send + Sync;

    /// Prepares the call of a claimed delivery, within five seconds. Deliveries are claimed together, so their look-ups can share one
    /// statement.
    fn prepare(
        &self,
        app: AppId,
        job: &DeliveryJob,
    ) -> impl Future<Output = Result<Self::Prepared, Answer>> + Send;

    /// Makes one attempt. The future may be dropped at any time and must not leave state behind that affects later attempts.
    fn send(&self, call: &Call<'_>, prepared: Self::Prepared) -> impl Future<Output = Answer> + Send;

    /// Makes the call that tests a provider, without sending a message: see [`OpenProviders::probe`].
    fn probe(&self, probe: &Probe<'_>) -> impl Future<Output = Result<String, Answer>> + Send;

    /// Maximum duration of a call to this provider, if it is not the usual three fifths of the lease (`delivery.lease`).
    fn longest_call(&self, _provider: &Provider) -> Option<Duration> {
        None
    }

    /// Returns the host that the target names, if any. Failures of the call then count against this host and not against the provider.
    fn host(&self, _target: &str) -> Option<String> {
        None
    }

    fn serves(_kind: &str, _target: &str) -> bool {
        true
    }
}

#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub lane: Lane,
    pub provider: &'a Provider,
    pub job: &'a DeliveryJob,
    pub now: Timestamp,
    pub lease: &'a Lease,
}

/// Runs the two lanes, each with its own limit of concurrent attempts, so that bulk sends never delay transactional ones.
pub async fn run<S: ChannelSender>(context: Context, sender: S) -> anyhow::Result<()> {
    context.store.pin_plans();
    let worker = Arc::new(attempt::Worker::new(&context, sender));
    for &lane in Lane::ALL {
        let consumer = lane::open(&context, S::CHANNEL, lane).await.context("cannot open the consumer")?;
        context.spawn("worker lane", lane::run(context.clone(), Arc::clone(&worker), consumer, lane));
    }
    context.spawn("provider tests", provider_tests::answer(context.clone(), worker));
    context.tasks.stopping().await;
    Ok(())
}
