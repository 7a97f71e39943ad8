//! Removal of sends that are older than `[sends] keep`, or than their app's shorter time, and of the subscriptions of deleted topics.

use std::time::Duration;

use domain::{AppId, SendId};
use metrics::counter;
use service_kit::config::Sends;
use service_kit::metrics::REMOVED_SENDS;
use service_kit::{Context, clock};
use store::sends::retention::{Aged, AgedApp};
use uuid::Uuid;

use crate::janitor::is_anything_ahead;

const PAUSE: Duration = Duration::from_secs(300);
/// Sends that one statement checks, and their recipients together. One send may have more.
const SENDS: u32 = 200;
const RECIPIENTS: u32 = 10_000;
/// Deliveries, and planned recipients, per transaction.
const ROWS: u32 = 1_000;
/// Subscriptions per transaction.
const SUBSCRIPTIONS: u32 = 5_000;

/// Several dispatchers may do this at once, because each skips the rows that another one has locked.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    loop {
        if let Some(Err(error)) = token.run_until_cancelled(round(&context)).await {
            tracing::warn!(error = format!("{error:#}"), "cannot remove old sends; trying again");
        }
        if let Some(Err(error)) = token.run_until_cancelled(remove_subscriptions(&context)).await {
            tracing::warn!(%error, "cannot remove the subscriptions of deleted topics; trying again");
        }
        if token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return Ok(());
        }
    }
}

/// Does nothing while the log contains an unprocessed message that is older than the log's retention, because processing it may need the
/// send.
async fn round(context: &Context) -> anyhow::Result<()> {
    let (keep, streams) = (context.config.sends.keep, &context.config.streams);
    let (now, least) = (clock::now(), Sends::least(streams, &context.config.delivery));
    if is_anything_ahead(context, now - streams.retention).await? {
        return Ok(());
    }
    for AgedApp { app, before } in context.store.sends().apps_with_old_sends(now, keep, least).await? {
        let mut removed = 0;
        let result = remove(context, app, Aged { before, ended_before: now - least }, &mut removed).await;
        if let Err(error) = result {
            tracing::warn!(%app, %error, "cannot remove old sends of an app; trying again");
        }
        if removed > 0 {
            tracing::info!(%app, removed, %before, "old sends removed");
        }
    }
    Ok(())
}

async fn remove(context: &Context, app: AppId, aged: Aged, removed: &mut u64) -> Result<(), store::Error> {
    let sends = context.store.sends();
    let mut after = SendId(Uuid::nil());
    loop {
        let (removable, last) = sends.removable_sends(app, aged, after, SENDS, RECIPIENTS).await?;
        let Some(last) = last else { return Ok(()) };
        after = last;
        while !removable.is_empty() {
            let rows = sends.remove_sends(app, &removable, ROWS).await?;
            counter!(REMOVED_SENDS).increment(rows.sends);
            *removed += rows.sends;
            if rows.is_none() {
                break;
            }
        }
    }
}

async fn remove_subscriptions(context: &Context) -> Result<(), store::Error> {
    while context.store.directory().remove_deleted_subscriptions(SUBSCRIPTIONS).await? > 0 {}
    Ok(())
}
