//! The web push channel's worker: messages to browsers over their push services, encrypted (RFC 8291) and signed with
//! the app's key pair (VAPID, RFC 8292).

pub mod answers;
mod authorization;
mod call;
mod channel;
mod doubts;
mod encryption;
mod payload;
mod probe;
pub mod settings;

use service_kit::Context;

pub use channel::WebPushSender;
pub use encryption::{MAX_PLAINTEXT, Unencrypted, encrypt};
pub use probe::probe;

/// Provider kinds of this channel.
pub const KINDS: &[worker::Kind] = &[settings::VAPID];

/// Runs the web push worker until the process stops.
///
/// # Errors
/// TLS cannot be set up, or an error of [`worker::run`].
pub async fn run(context: Context) -> anyhow::Result<()> {
    let sender = WebPushSender::new(&context)?;
    worker::run(context, sender).await
}
