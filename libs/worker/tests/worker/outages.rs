//! Unavailable servers, and shutdown of the worker.

use std::time::Duration;

use domain::{Outcome, Status};
use testkit::eventually;

use crate::scripted::{ScriptedChannel, Step};
use crate::world::{JOBS, SOON, World, serve, stop};

const SENT: Outcome = Outcome::Sent { provider_id: None };

#[tokio::test]
async fn an_answer_is_settled_once_the_database_is_back_and_the_provider_called_once() {
    let mut world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Hold(SENT)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    world.postgres.kill();
    scripted.release();
    eventually(SOON, "readiness reports the database as unavailable", async || {
        let readiness = world.context.readiness.check().await;
        (!readiness.ready).then_some(())
    })
    .await;
    world.postgres.restart().await.unwrap();
    eventually(SOON, "the attempt is settled", async || {
        let states =
            world.context.store.deliveries().delivery_states(&[(world.app, order.delivery_id)]).await;
        (states.ok()?[0].status == Status::Sent).then_some(())
    })
    .await;
    eventually(SOON, "the job is acknowledged", async || {
        let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap()?;
        (progress.ack_floor == 1).then_some(())
    })
    .await;
    assert_eq!(scripted.calls().len(), 1);
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
}

#[tokio::test]
async fn a_stopping_worker_waits_for_the_database_to_settle_its_answer() {
    let mut world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Hold(SENT)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    world.postgres.kill();
    world.context.tasks.stop();
    scripted.release();
    // Fail two queries before the restart. They take at least as long as the worker's first try to settle, so
    // that try fails too.
    for _ in 0..2 {
        world
            .context
            .store
            .deliveries()
            .delivery_states(&[(world.app, order.delivery_id)])
            .await
            .unwrap_err();
    }
    world.postgres.restart().await.unwrap();
    stop(&world.context).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_stop_finishes_jobs_in_progress_and_starts_no_new_ones() {
    let world = World::with(|config| config.delivery.max_concurrency = 1).await;
    let scripted = ScriptedChannel::new([Step::Hold(SENT)]);
    world.serve(&scripted);
    let (first, second) = (world.delivery(1).await, world.delivery(2).await);
    world.order(&first).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    world.order(&second).await;
    world.context.tasks.stop();
    let tasks = world.context.tasks.clone();
    let finished = tokio::spawn(async move { tasks.finish().await });
    tokio::task::yield_now().await;
    assert!(!finished.is_finished());
    scripted.release();
    tokio::time::timeout(SOON, finished).await.unwrap().unwrap().unwrap();
    world.reaches(first.delivery_id, Status::Sent).await;
    world.acknowledged(1).await;
    world.reaches(second.delivery_id, Status::Queued).await;
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_call_that_hangs_when_the_process_stops_is_abandoned_in_time_and_settled() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Hold(SENT)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    // `stop` waits as long as a process may take to stop, and fails the test if a task is still running then.
    stop(&world.context).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    let unknown = "SELECT count(*) FROM attempt WHERE outcome = 'unknown' AND provider_code = 'stopped'";
    assert_eq!(world.count(unknown).await, 1);
    assert_eq!(world.settlings().await, [(1, Status::Retrying)]);
}

#[tokio::test]
async fn jobs_that_were_not_started_are_returned_at_once_when_the_process_stops() {
    // With this `ack_wait`, the second worker gets the job in time only if the first worker returns it.
    let world = World::with(|config| config.delivery.ack_wait = Duration::from_secs(600)).await;
    let (first, second) = (ScriptedChannel::new([]), ScriptedChannel::new([]));
    world.serve(&first);
    let before = world.delivery(1).await;
    world.order(&before).await;
    world.acknowledged(1).await;
    world.context.tasks.stop();
    let after = world.delivery(2).await;
    world.order(&after).await;
    let other = world.another().await;
    stop(&world.context).await;
    serve(&other, &second);
    world.reaches(after.delivery_id, Status::Sent).await;
    assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
    stop(&other).await;
}
