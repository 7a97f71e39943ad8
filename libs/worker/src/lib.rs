//! What all channel workers share: from a job of the log to a provider's call to a settled delivery.
//!
//! A worker is a [`ChannelSender`]; everything else is here. [`run`] fetches jobs, each of which goes through [`job`]: it is
//! admitted ([`admission`]: which provider, and may it be called now), claimed, called ([`call`]), settled ([`settle`]),
//! told and acknowledged ([`tell`]). Statements of concurrent jobs are shared ([`ledger`]).

mod admission;
mod call;
pub mod exchange;
mod gate;
mod job;
mod kind;
mod lane;
mod ledger;
pub mod outbound;
mod provider;
mod refusals;
pub mod settings;
mod settle;
mod shares;
mod tell;
pub mod verdict;

use std::sync::Arc;

use anyhow::Context as _;
use domain::event::DeliveryJob;
use domain::{Answer, AppId, Channel, Lane, SendId, Timestamp};
use service_kit::Context;

pub use kind::Kind;
pub use outbound::Outbound;
pub use provider::{Provider, open_secrets};
pub use refusals::Refusals;
pub use verdict::Verdict;

/// Makes the calls of one channel.
pub trait ChannelSender: Send + Sync + 'static {
    /// The channel.
    const CHANNEL: Channel;

    /// Whether providers of the channel say later what became of a message that they took (see
    /// [`store::deliveries::receipt`]). Its job is kept until then, so that it can be sent again.
    const RECEIPTS: bool = false;

    /// Makes one attempt. It may be dropped at any time and must then leave nothing half done behind that a later
    /// attempt could take up.
    fn send(&self, call: &Call<'_>) -> impl Future<Output = Answer> + Send;

    /// The host that the target itself names, so that its failures speak of that host and not of the provider.
    fn host(&self, _target: &str) -> Option<String> {
        None
    }

    /// Whether a provider of this kind can reach the target at all.
    fn serves(_kind: &str, _target: &str) -> bool {
        true
    }
}

/// One attempt that is to be made.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The app.
    pub app: AppId,
    /// The send that the delivery is part of.
    pub send_id: Option<SendId>,
    /// The lane that the job came over.
    pub lane: Lane,
    /// Whom to call.
    pub provider: &'a Provider,
    /// What to say, and to whom.
    pub job: &'a DeliveryJob,
    /// When the attempt began.
    pub now: Timestamp,
}

/// Runs a channel's worker until the process stops: both lanes, each with its own bound on concurrent attempts, so
/// that bulk never delays transactional.
///
/// # Errors
/// The log refuses the consumers that it needs.
pub async fn run<S: ChannelSender>(context: Context, sender: S) -> anyhow::Result<()> {
    let worker = Arc::new(job::Worker::new(&context, sender));
    for &lane in Lane::ALL {
        let consumer = lane::open(&context, S::CHANNEL, lane).await.context("the jobs cannot be consumed")?;
        context.spawn("worker lane", lane::run(context.clone(), Arc::clone(&worker), consumer, lane));
    }
    context.tasks.stopping().await;
    Ok(())
}
