//! Runs: redrives of parked messages in the background, at a rate.

use std::time::Duration;

use metrics::counter;
use service_kit::metrics::REDRIVEN;
use service_kit::{Context, clock};
use store::deliveries::redrive::run::RunPage;
use uuid::Uuid;

/// Longest pause between two looks for a due page.
const PAUSE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(1);
/// After this time, another dispatcher makes the pages of a dispatcher that died.
const LEASE: Duration = Duration::from_secs(5);

/// Several dispatchers share the work. Each run is leased to one of them.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let process = clock::new_id();
    loop {
        let pause = match token.run_until_cancelled(round(&context, process)).await {
            None => return Ok(()),
            Some(Ok(pause)) => pause,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot make a page of a redrive; trying again");
                RETRY
            }
        };
        if !pause.is_zero() {
            token.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}

/// Makes the page that is due first. Returns the time until the next one.
async fn round(context: &Context, process: Uuid) -> Result<Duration, store::Error> {
    let deliveries = context.store.deliveries();
    let Some(run) = deliveries.lease_run(process, LEASE).await? else {
        let next = deliveries.next_page_in(process).await?;
        return Ok(next.unwrap_or(PAUSE).clamp(Duration::from_millis(10), PAUSE));
    };
    match deliveries.make_run_page(run, process, clock::now()).await? {
        RunPage::NotHeld => {}
        RunPage::Paused(pause) => {
            tracing::warn!(app = %run.app, run = run.id, cause = %pause, "a redrive has paused itself; an operator can resume it");
        }
        RunPage::Made { redriven, is_last } => {
            counter!(REDRIVEN).increment(redriven);
            if is_last {
                tracing::info!(app = %run.app, run = run.id, "a redrive is done");
            }
        }
    }
    Ok(Duration::ZERO)
}
