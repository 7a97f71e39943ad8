//! Jobs whose attempt has ended and that wait for their settlement.

use domain::Status;
use testkit::eventually;

use crate::scripted::ScriptedChannel;
use crate::world::{SOON, World};

#[tokio::test]
async fn attempts_continue_while_others_settle_and_their_settlements_share_transactions() {
    let world = World::with(|config| config.delivery.max_concurrency = 4).await;
    let scripted = ScriptedChannel::new([]);
    let mut lock = world.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE attempt IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    for number in 1..=60 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    eventually(SOON, "every job is called", async || (scripted.calls().len() == 60).then_some(())).await;
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'sending'").await, 60);
    lock.rollback().await.unwrap();
    world.acknowledged(60).await;
    assert_eq!(world.settlings().await, vec![(1, Status::Sent); 60]);
    assert_eq!(scripted.calls().len(), 60);
    let transactions = world.count("SELECT count(DISTINCT xmin::text) FROM attempt").await;
    assert!(transactions <= 6, "60 settlements in {transactions} transactions");
}
