//! The mobile push channel's worker: Apple's push service (APNs) and Firebase Cloud Messaging (FCM).

pub mod answers;
pub mod apns;
mod body;
mod calls;
mod channel;
pub mod fcm;
mod kinds;
mod merge;
mod options;
mod own;

use std::time::Duration;

use service_kit::Context;
use worker::Outbound;

pub use calls::{Calls, Push};
pub use channel::MobilePushSender;
pub use kinds::KINDS;

/// Time limit of an attempt, with all its waits and calls. It ends before the worker's own limit (three fifths of the
/// lease), because only the channel knows whether the message was handed over.
#[must_use]
pub fn attempt_limit(lease: Duration) -> Duration {
    lease / 2
}

/// Runs the mobile push worker until the process stops.
///
/// # Errors
/// Errors of [`worker::run`].
pub async fn run(context: Context) -> anyhow::Result<()> {
    let outbound = Outbound::new(context.config.outbound.allow_private);
    let attempt_limit = attempt_limit(context.config.delivery.lease);
    worker::run(context, MobilePushSender::new(outbound, attempt_limit)).await
}
