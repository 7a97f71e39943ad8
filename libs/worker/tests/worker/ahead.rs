//! Claims ahead of their calls.

use std::time::Duration;

use domain::{Outcome, Status};
use testkit::eventually;

use crate::scripted::{ScriptedChannel, Step};
use crate::world::{SOON, World};

/// Number of concurrent calls to the provider: three quarters of the worker's, rounded up.
const CALLS: usize = 3;
/// Number of short calls after which the worker claims ahead.
const SHORT: i64 = 60;

/// Trigger that records which deliveries were claimed.
const CLAIMS: &str = "
    CREATE TABLE claimed (delivery_id uuid PRIMARY KEY);
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO claimed VALUES (NEW.id) ON CONFLICT DO NOTHING;
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_claim AFTER UPDATE ON delivery FOR EACH ROW
      WHEN (NEW.status = 'sending') EXECUTE FUNCTION note_claim();";

fn sent() -> Outcome {
    Outcome::Sent { provider_id: None }
}

#[tokio::test]
async fn claims_whose_provider_becomes_slow_are_given_back() {
    claims_are_given_back(|scripted| scripted).await;
}

#[tokio::test]
async fn claims_whose_host_becomes_slow_are_given_back() {
    claims_are_given_back(|scripted| scripted.at_host("https://push.example")).await;
}

async fn claims_are_given_back(changed: fn(ScriptedChannel) -> ScriptedChannel) {
    let world = World::with(|config| {
        config.delivery.max_concurrency = 4;
        config.delivery.ack_wait = Duration::from_secs(30);
    })
    .await;
    let short = (0..SHORT).map(|_| Step::Answer(sent()));
    let scripted = changed(ScriptedChannel::new(short.chain((0..CALLS).map(|_| Step::Hold(sent())))));
    world.serve(&scripted);
    let mut orders = Vec::new();
    for number in 1..=SHORT + 10 {
        orders.push(world.delivery(number).await);
    }
    let short = usize::try_from(SHORT).unwrap();
    world.order_together(&orders[..short]).await;
    world.acknowledged(1).await;

    // After short calls, the worker claims more deliveries than it may call, but the next calls hang.
    world.run(CLAIMS).await;
    world.order_together(&orders[short..]).await;
    let claimed = "SELECT count(*) FROM claimed";
    eventually(SOON, "all deliveries are claimed", async || (world.count(claimed).await == 10).then_some(()))
        .await;
    eventually(SOON, "the next calls hang", async || (scripted.calls().len() == short + CALLS).then_some(()))
        .await;
    let waiting =
        "SELECT count(*) FROM delivery WHERE status = 'queued' AND token IS NULL AND lease_until IS NULL";
    eventually(SOON, "the waiting claims are given back", async || {
        (world.count(waiting).await == 7).then_some(())
    })
    .await;
    assert_eq!(scripted.calls().len(), short + CALLS);
    assert_eq!(world.count("SELECT count(*) FROM attempt").await, SHORT);

    scripted.release();
    world.acknowledged(2).await;
    world.run("UPDATE timer SET due_at = now()").await;
    world.fire_timers(7).await;
    for order in &orders {
        world.reaches(order.delivery_id, Status::Sent).await;
    }
    assert_eq!(scripted.calls().len(), orders.len());
    assert_eq!(world.count("SELECT count(*) FROM attempt WHERE outcome = 'sent'").await, SHORT + 10);
}
