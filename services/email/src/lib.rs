//! Worker of the email channel. It sends over SMTP with pooled connections, or through Postmark's HTTP API.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod address;
mod channel;
mod connections;
mod dkim;
mod encoded_words;
mod identity;
mod kinds;
mod large_emails;
mod letter;
mod letter_error;
mod message;
mod parts;
mod plain_text;
pub mod postmark;
mod quoted_printable;
mod settings;
pub mod smtp;
mod sources;

pub use channel::EmailSender;
pub use connections::Connections;
pub use kinds::KINDS;
pub use letter::Enclosures;
pub use letter_error::LetterError;
pub use smtp::{Failure, PoolLimits, Reply, Stage, Times};
pub use sources::{Link, Load, Sources};

use service_kit::Context;
use worker::Outbound;

pub async fn run(context: Context) -> anyhow::Result<()> {
    let outbound = Outbound::new(context.config.outbound.allow_private);
    let sender = EmailSender::new(PoolLimits::default(), outbound, Sources::of(&context))?;
    tokio::select! {
        result = worker::run(context, sender.clone()) => result,
        never = sender.reap() => match never {},
    }
}
