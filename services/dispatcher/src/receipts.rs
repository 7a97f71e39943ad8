//! Recording of delivery receipts that arrived before the provider's answer was settled.

use std::collections::HashMap;
use std::time::Duration;

use domain::AppId;
use domain::retry::RetryPolicy;
use service_kit::{Context, clock, metrics};
use store::deliveries::receipt::MissedReceipt;
use tokio::time::Instant;

const ROUND: u32 = 500;
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which a receipt without a message counts as missed. The worker records the answer to a message within seconds, unless
/// PostgreSQL is not available.
const MISSED_AFTER: Duration = Duration::from_secs(30);
/// Time between two log lines about the missed receipts of a provider.
const LOG_PAUSE: Duration = Duration::from_secs(3600);
const MOST_PROVIDERS: usize = 1_000;

/// Several dispatchers share the work.
pub(crate) async fn run(context: Context) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let policy = RetryPolicy { schedule: context.config.delivery.retry_schedule.clone() };
    let mut misses = Misses::default();
    while token.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
        let round = context.store.deliveries().record_early_receipts(ROUND, &policy, clock::random());
        match token.run_until_cancelled(round).await {
            Some(Ok(recorded)) if recorded > 0 => {
                tracing::debug!(
                    recorded,
                    "recorded receipts that arrived before their deliveries were settled"
                );
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot record receipts that arrived before their deliveries were settled; trying again");
            }
            _ => {}
        }
        let missed = context.store.deliveries().missed_receipts(MISSED_AFTER, ROUND);
        match token.run_until_cancelled(missed).await {
            Some(Ok(missed)) => missed.iter().for_each(|receipt| misses.report(receipt)),
            Some(Err(error)) => tracing::warn!(%error, "cannot count missed receipts; trying again"),
            None => {}
        }
    }
    Ok(())
}

#[derive(Default)]
struct Misses(HashMap<(AppId, String), Instant>);

impl Misses {
    fn report(&mut self, missed: &MissedReceipt) {
        let MissedReceipt { app, provider, id } = missed;
        let labels = [("app", app.to_string()), ("provider", provider.clone())];
        ::metrics::counter!(metrics::RECEIPTS_MISSED, &labels).increment(1);
        let key = (*app, provider.clone());
        if self.0.get(&key).is_some_and(|last| last.elapsed() < LOG_PAUSE) {
            return;
        }
        if self.0.len() >= MOST_PROVIDERS {
            self.0.clear();
        }
        self.0.insert(key, Instant::now());
        tracing::warn!(
            %app, provider, message_id = id,
            "a receipt names a message that no answer of the provider has named; compare the ids and set settings.receiptIds"
        );
    }
}
