//! Worker of the mobile push channel: Apple's push service (APNs) and Firebase Cloud Messaging (FCM).
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod answers;
pub mod apns;
mod calls;
mod channel;
pub mod fcm;
mod kinds;

use std::time::Duration;

use service_kit::Context;
use worker::Outbound;

pub use calls::{Calls, Push};
pub use channel::MobilePushSender;
pub use kinds::KINDS;

/// Returns the time limit of an attempt, including all its waits and calls. The worker ends a call after three fifths of the lease. The
/// channel must time out first, because only the channel knows whether the message may have been accepted.
#[must_use]
pub fn attempt_limit(lease: Duration) -> Duration {
    lease / 2
}

pub async fn run(context: Context) -> anyhow::Result<()> {
    let outbound = Outbound::new(context.config.outbound.allow_private);
    let attempt_limit = attempt_limit(context.config.delivery.lease);
    worker::run(context, MobilePushSender::new(outbound, attempt_limit)).await
}
