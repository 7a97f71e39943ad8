//! Pending receipts of SMPP providers. A message centre delivers them only over a bound session, which a restarted process would not
//! have before its next send.

use std::time::Duration;

use domain::Channel;
use service_kit::Context;
use tokio::time::interval;
use worker::Provider;

use crate::channel::SmsSender;
use crate::smpp::settings::SMPP;

/// Between two looks; well below the time for which an unused session stays bound.
const PAUSE: Duration = Duration::from_secs(180);
/// Sessions that are bound for receipts alone.
const MOST: u32 = 500;

/// Has sessions bound at once, and again and again, as long as receipts are waited for and the process goes on.
pub(crate) async fn listen(context: Context, sender: SmsSender) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let mut ticks = interval(PAUSE);
    while token.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Some(Err(error)) = token.run_until_cancelled(bind(&context, &sender)).await {
            tracing::warn!(%error, "sessions for receipts that are waited for could not be looked up");
        }
    }
    Ok(())
}

async fn bind(context: &Context, sender: &SmsSender) -> Result<(), store::Error> {
    for (app, row) in context.store.providers_awaiting_receipts(Channel::Sms, SMPP.name, MOST).await? {
        let identifier = row.identifier.clone();
        let opened = Provider::open(&context.master_key, app, row).map_err(|error| format!("{error:#}"));
        let bound = opened.and_then(|provider| sender.listen(&provider).map_err(|answer| answer.message));
        if let Err(problem) = bound {
            tracing::warn!(%app, provider = identifier, problem, "no session is bound for its receipts");
        }
    }
    Ok(())
}
