//! The mobile push channel's worker: Apple's push service (APNs) and Firebase Cloud Messaging (FCM).

pub mod answers;
pub mod apns;
mod body;
mod channel;
pub mod fcm;
mod merge;
mod options;
mod own;
mod probe;

use std::time::Duration;

use service_kit::Context;
use worker::Outbound;

pub use channel::MobilePushSender;
pub use probe::probe;

/// The kinds of providers that it knows.
pub const KINDS: &[worker::Kind] = &[apns::APNS, fcm::FCM];

/// One call of a service, answer included, as far as its attempt has that much time.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(15);

/// The time of an attempt with all its waits and calls. It ends below the three fifths of a lease that the worker gives
/// it: we know whether a message was handed over, the worker does not.
#[must_use]
pub fn attempt_limit(lease: Duration) -> Duration {
    lease / 2
}

/// Runs the mobile push worker until the process stops.
///
/// # Errors
/// See [`worker::run`].
pub async fn run(context: Context) -> anyhow::Result<()> {
    let outbound = Outbound::new(context.config.outbound.allow_private);
    let attempt_limit = attempt_limit(context.config.delivery.lease);
    worker::run(context, MobilePushSender::new(outbound, attempt_limit)).await
}
