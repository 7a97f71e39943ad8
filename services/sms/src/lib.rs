//! Worker of the SMS channel. It sends through Twilio, through any provider with an HTTP API, or over SMPP.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod answers;
mod awaited;
mod channel;
mod connections;
pub mod http;
mod keywords;
mod kinds;
mod limits;
mod recorder;
mod seldom;
mod settings;
pub mod smpp;
pub mod twilio;

pub use channel::{SmsSender, StartError};
pub use connections::Connections;
pub use keywords::KeywordMessage;
pub use kinds::KINDS;
pub use limits::Limits;
pub use recorder::{Receipt, RecordResult};

use anyhow::Context as _;
use service_kit::Context;
use worker::Outbound;

pub async fn run(context: Context) -> anyhow::Result<()> {
    let config = &context.config;
    let outbound = Outbound::new(config.outbound.allow_private);
    let public_url = config.gateway.public_url.as_ref().map(|url| url.expose().to_owned());
    let limits = Limits::for_lease(config.delivery.lease);
    let (sender, receipts) = SmsSender::start(outbound, public_url, limits, context.tasks.clone())
        .context("cannot create the HTTP client of the SMS channel")?;
    context.spawn("delivery receipts", recorder::record(context.clone(), receipts));
    if let Some(messages) = sender.keywords() {
        context.spawn("keywords", keywords::record(context.clone(), messages));
    }
    context.spawn("awaited receipts", awaited::listen(context.clone(), sender.clone()));
    tokio::select! {
        result = worker::run(context, sender.clone()) => result,
        never = sender.reap() => match never {},
    }
}
