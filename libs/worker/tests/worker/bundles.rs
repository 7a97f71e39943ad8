//! Several jobs in one message.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use domain::event::DeliveryJob;
use domain::{DeliveryId, Outcome, Status};
use store::deliveries::ledger::ClaimRequest;
use testkit::eventually;
use uuid::Uuid;

use crate::scripted::{ScriptedChannel, Step};
use crate::world::{JOBS, SOON, World, serve, stop};

async fn deliveries(world: &World, numbers: std::ops::RangeInclusive<i64>) -> Vec<DeliveryJob> {
    let mut orders = Vec::new();
    for number in numbers {
        orders.push(world.delivery(number).await);
    }
    orders
}

impl World {
    /// Publishes the jobs that were postponed, as the dispatcher does. On a slow machine, a job may wait for more than a second for a call,
    /// and is then postponed. Returns the number of published messages.
    pub(crate) async fn publish_postponed(&self) -> u64 {
        self.run("UPDATE timer SET due_at = now()").await;
        let due = self.context.store.deliveries().due_timers(100).await.unwrap();
        for timer in &due.timers {
            self.publish_as(Some(timer.id.to_string()), timer.stream, timer.message.clone()).await;
        }
        let ids: Vec<_> = due.timers.iter().map(|timer| timer.id).collect();
        due.done(&ids).await.unwrap();
        ids.len() as u64
    }
}

#[tokio::test]
async fn a_bundle_of_more_jobs_than_calls_is_delivered_once_and_acknowledged() {
    let world = World::with(|config| {
        config.delivery.max_concurrency = 4;
        config.delivery.ack_wait = SOON;
    })
    .await;
    let scripted = ScriptedChannel::new([]);
    let orders = deliveries(&world, 1..=60).await;
    world.order_together(&orders).await;
    let began = Instant::now();
    world.serve(&scripted);
    world.acknowledged(1).await;
    let (calls, timers) = (scripted.calls().len(), world.count("SELECT count(*) FROM timer").await);
    assert_eq!(i64::try_from(calls).unwrap() + timers, 60);
    assert!(timers == 0 || began.elapsed() > Duration::from_secs(1), "{timers} jobs were postponed at once");
    let mut messages = 1;
    eventually(SOON, "every job is called", async || {
        messages += world.publish_postponed().await;
        world.acknowledged(messages).await;
        (scripted.calls().len() == 60).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'sent'").await, 60);
    assert_eq!(world.settlings().await.len(), 60);
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!(progress.redelivered, 0);
}

#[tokio::test]
async fn a_bundle_with_an_unfinished_job_is_redelivered_and_repeats_no_call() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    let mut orders = deliveries(&world, 1..=3).await;
    let missing = DeliveryId(Uuid::from_u128(4));
    orders.push(DeliveryJob {
        delivery_id: missing,
        target: "user-4@example.com".to_owned(),
        ..orders[0].clone()
    });
    world.order_together(&orders).await;
    world.serve(&scripted);
    // When the log delivers the bundle for the third time, each of its jobs becomes a message of its own.
    world.acknowledged(1).await;
    assert_eq!(scripted.calls().len(), 3);
    assert_eq!(world.delivery(4).await.delivery_id, missing);
    world.fire_timers(4).await;
    world.reaches(missing, Status::Sent).await;
    let called: HashSet<_> = scripted.calls().into_iter().map(|call| call.delivery).collect();
    assert_eq!((scripted.calls().len(), called.len()), (4, 4));
}

#[tokio::test]
async fn a_job_that_has_to_wait_leaves_its_bundle() {
    let world = World::with(|config| config.delivery.ack_wait = SOON).await;
    let scripted = ScriptedChannel::new([]);
    let orders = deliveries(&world, 1..=3).await;
    let leased = &orders[1];
    let request = ClaimRequest { app: world.app, delivery: leased.delivery_id, attempt: 1, provider: None };
    world.context.store.deliveries().claim(&[request], SOON).await.unwrap();
    world.order_together(&orders).await;
    world.serve(&scripted);
    world.acknowledged(1).await;
    assert_eq!(scripted.calls().len(), 2);
    let alone: (i64, bool) =
        sqlx::query_as("SELECT user_number, due_at > now() + interval '5 seconds' FROM timer")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert_eq!(alone, (leased.user.0, true));
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!(progress.redelivered, 0);

    world.run("UPDATE delivery SET lease_until = now() WHERE status = 'sending'").await;
    world.run("UPDATE timer SET due_at = now()").await;
    world.fire_timers(1).await;
    world.reaches(leased.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls().len(), 3);
}

#[tokio::test]
async fn a_stopping_worker_returns_a_bundle_whose_jobs_wait() {
    let world = World::with(|config| config.delivery.max_concurrency = 1).await;
    let first = world.another().await;
    let stopping = Step::Stop(first.tasks.clone(), Outcome::Sent { provider_id: None });
    let scripted = ScriptedChannel::new([stopping]);
    let orders = deliveries(&world, 1..=3).await;
    world.order_together(&orders).await;
    serve(&first, &scripted);
    eventually(SOON, "the first job calls the provider", async || {
        (scripted.calls().len() == 1).then_some(())
    })
    .await;
    stop(&first).await;
    assert_eq!(scripted.calls().len(), 1, "the waiting jobs were returned");
    world.serve(&scripted);
    world.acknowledged(1).await;
    assert_eq!(scripted.calls().len(), 3);
}
