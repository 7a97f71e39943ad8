//! Regular cleaning: gives up on messages of endpoints that keep failing, removes finished messages, and counts pending ones.

use std::time::Duration;

use metrics::{counter, gauge};
use service_kit::Context;
use service_kit::metrics::{WEBHOOK_ATTEMPTS, WEBHOOK_OLDEST_AGE, WEBHOOK_PENDING};
use service_kit::presence::Backlog;
use store::webhooks::PruneFrom;
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(15);
/// The next round is at least so many times as far away as the last count took: while a transaction is open, PostgreSQL keeps all messages
/// that were sent meanwhile in the index that it reads. A count of a million takes 1.5 s.
const SHARE: u32 = 200;
/// The same after a round that failed. Less, because a round may only have waited for a server that was away.
const SHARE_OF_FAILED: u32 = 10;
const LONGEST: Duration = Duration::from_secs(300);
/// Messages that were locked when they were to be removed are found within this time.
const ALL_EACH: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than the time within which an event may be published again.
const KEEP_TAKEN: Duration = DAY.saturating_mul(8);
/// Allows operators to inspect and resend messages that the service gave up on.
const KEEP_GIVEN_UP: Duration = DAY.saturating_mul(30);

/// Several processes may do this at the same time.
pub(crate) async fn run(context: Context, give_up_after: Duration) -> anyhow::Result<()> {
    let token = context.tasks.token().clone();
    let (mut from, mut forget_at) = (PruneFrom::default(), Instant::now());
    loop {
        let began = Instant::now();
        if began >= forget_at {
            from = PruneFrom::default();
            forget_at = began + ALL_EACH;
        }
        let pause = match token.run_until_cancelled(round(&context, give_up_after, &mut from)).await {
            Some(Ok(counting)) => counting * SHARE,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot clean up webhooks; trying again");
                began.elapsed() * SHARE_OF_FAILED
            }
            None => return Ok(()),
        };
        if token.run_until_cancelled(tokio::time::sleep(pause.clamp(PAUSE, LONGEST))).await.is_none() {
            return Ok(());
        }
    }
}

/// Returns the time that counting took.
async fn round(
    context: &Context,
    give_up_after: Duration,
    from: &mut PruneFrom,
) -> Result<Duration, store::Error> {
    loop {
        let given_up = context.store.webhooks().give_up_webhooks(give_up_after).await?;
        if given_up == 0 {
            break;
        }
        counter!(WEBHOOK_ATTEMPTS, "outcome" => "given_up").increment(given_up);
        tracing::warn!(given_up, "gave up on webhooks because their endpoints have failed for too long");
    }
    while context.store.webhooks().prune_webhooks(KEEP_TAKEN, KEEP_GIVEN_UP, from).await? > 0 {}
    let began = Instant::now();
    let (pending, age) = context.store.webhooks().pending_webhooks().await?;
    let counting = began.elapsed();
    gauge!(WEBHOOK_PENDING).set(pending as f64);
    gauge!(WEBHOOK_OLDEST_AGE).set(age.as_secs_f64());
    let oldest_seconds = age.as_secs_f64();
    context.presence.note(Backlog {
        name: "webhooks".to_owned(),
        waiting: pending,
        oldest_seconds,
        fill: None,
    });
    Ok(counting)
}
