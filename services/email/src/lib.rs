//! The email channel's worker: SMTP over its own small pool of connections.

mod address;
pub mod answers;
mod channel;
mod connection;
mod message;
mod pool;
mod pools;
mod route;
pub mod settings;

pub use channel::SmtpSender;
pub use connection::{Failure, Reply, Stage};
pub use message::{OutgoingMail, Unsendable};
pub use pool::PoolLimits;

use service_kit::Context;

/// Runs the email worker until the process stops.
///
/// # Errors
/// See [`worker::run`].
pub async fn run(context: Context) -> anyhow::Result<()> {
    let sender = SmtpSender::new(PoolLimits::for_lease(context.config.delivery.lease));
    tokio::select! {
        result = worker::run(context, sender.clone()) => result,
        never = sender.reap() => match never {},
    }
}
