//! Jobs whose attempt has ended and that wait for their settlement.

use domain::Status;
use testkit::eventually;

use crate::scripted::ScriptedChannel;
use crate::world::{SOON, World};

/// A receipt arrives right after the attempt is settled, and the worker continues when the test releases its lock.
const RECEIPT_DURING_A_PAUSE: [&str; 2] = [
    "CREATE FUNCTION receipt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       UPDATE delivery SET status = 'failed', reason = 'provider_refused' WHERE id = NEW.delivery_id;
       PERFORM pg_advisory_xact_lock(1);
       RETURN NULL;
     END $$",
    "CREATE TRIGGER receipt AFTER INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION receipt()",
];
/// Counts settlements that have waited for the lock for so long that the worker reads the state of the delivery again.
const PAUSED: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'advisory' AND query_start < clock_timestamp() - interval '1.5 s'";

#[tokio::test]
async fn a_worker_that_was_paused_does_not_publish_sent_after_a_receipt_has_reported_a_failure() {
    let world = World::start().await;
    for statement in RECEIPT_DURING_A_PAUSE {
        world.run(statement).await;
    }
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(1)").execute(&mut *lock).await.unwrap();
    world.order(&order).await;
    eventually(SOON, "the worker is paused", async || (world.count(PAUSED).await == 1).then_some(())).await;
    lock.rollback().await.unwrap();
    world.acknowledged(1).await;
    assert_eq!(world.settlings().await, [(1, Status::Failed)]);
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn attempts_continue_while_others_settle_and_their_settlements_share_transactions() {
    let world = World::with(|config| {
        config.delivery.max_concurrency = 4;
        config.delivery.ack_wait = SOON;
    })
    .await;
    let scripted = ScriptedChannel::new([]);
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE attempt IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    for number in 1..=60 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    let mut messages = 60;
    eventually(SOON, "every job is called", async || {
        messages += world.publish_postponed().await;
        (scripted.calls().len() == 60).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'sending'").await, 60);
    lock.rollback().await.unwrap();
    world.acknowledged(messages).await;
    assert_eq!(world.settlings().await, vec![(1, Status::Sent); 60]);
    assert_eq!(scripted.calls().len(), 60);
    let transactions = world.count("SELECT count(DISTINCT xmin::text) FROM attempt").await;
    assert!(transactions <= 6, "60 settlements in {transactions} transactions");
}
