//! Worker of the web push channel. It encrypts messages (RFC 8291), and signs calls with the app's key pair (VAPID, RFC 8292).
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod answers;
mod authorization;
mod call;
mod channel;
mod doubts;
mod encryption;
mod kinds;
mod push_services;
pub mod settings;
mod vapid;

use service_kit::Context;

pub use channel::WebPushSender;
pub use domain::web_push::MAX_PLAINTEXT;
pub use encryption::{EncryptionError, encrypt};
pub use kinds::KINDS;
pub use push_services::PushServices;
pub use vapid::Vapid;

/// Fails if TLS cannot be set up, or with an error of [`worker::run`].
pub async fn run(context: Context) -> anyhow::Result<()> {
    let sender = WebPushSender::new(&context)?;
    worker::run(context, sender).await
}
