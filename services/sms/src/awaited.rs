//! Binds the SMPP sessions of providers that still owe receipts. A message centre delivers receipts only over a bound
//! session. Without this task, a restarted process would bind a session only when it sends the next SMS.

use std::time::Duration;

use domain::Channel;
use service_kit::Context;
use tokio::time::interval;
use worker::{Provider, ProviderKind as _};

use crate::channel::SmsSender;
use crate::smpp::Smpp;

/// Interval between queries for providers with outstanding receipts. It is much shorter than
/// [`Limits::idle`](crate::Limits::idle), so the sessions stay bound.
const PAUSE: Duration = Duration::from_secs(180);
const MOST: u32 = 500;

pub(crate) async fn listen(context: Context, sender: SmsSender) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut ticks = interval(PAUSE);
    while token.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Some(Err(error)) = token.run_until_cancelled(bind(&context, &sender)).await {
            tracing::warn!(%error, "cannot list providers with outstanding receipts; trying again");
        }
    }
    Ok(())
}

async fn bind(context: &Context, sender: &SmsSender) -> Result<(), store::Error> {
    for (app, row) in
        context.store.control().providers_awaiting_receipts(Channel::Sms, Smpp::NAME, MOST).await?
    {
        let identifier = row.identifier.clone();
        let opened = Provider::open(&context.master_key, app, row).map_err(|error| format!("{error:#}"));
        let bound = opened.and_then(|provider| sender.listen(&provider).map_err(|answer| answer.message));
        if let Err(problem) = bound {
            tracing::warn!(
                %app,
                provider = identifier,
                problem,
                "cannot bind a session for the receipts of a provider; trying again"
            );
        }
    }
    Ok(())
}
