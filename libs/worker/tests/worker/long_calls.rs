//! Calls that last longer than a lease.

use std::time::Duration;

use domain::event::DeliveryJob;
use domain::{Outcome, Route, Status};
use testkit::eventually;

use crate::scripted::{ScriptedChannel, Step};
use crate::world::{SOON, World, stop};

const SENT: Outcome = Outcome::Sent { provider_id: None };
const LEASE: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(600);

async fn world() -> World {
    World::with(|config| {
        config.delivery.lease = LEASE;
        config.delivery.ack_wait = LONG;
    })
    .await
}

fn long(steps: impl IntoIterator<Item = Step>) -> ScriptedChannel {
    ScriptedChannel::new(steps).with_longest_call(LONG)
}

/// Starts the call of a delivery.
async fn called(world: &World, scripted: &ScriptedChannel) -> DeliveryJob {
    world.serve(scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "the call starts", async || (!scripted.calls().is_empty()).then_some(())).await;
    order
}

#[tokio::test]
async fn a_call_may_last_longer_than_its_lease_because_the_claim_is_renewed() {
    let world = world().await;
    let scripted = long([Step::Hold(SENT)]);
    let order = called(&world, &scripted).await;
    world.run("CREATE TABLE first_lease AS SELECT lease_until FROM delivery").await;
    eventually(SOON, "the lease has moved by more than its length", async || {
        let moved = "SELECT count(*) FROM delivery d, first_lease f WHERE d.lease_until > f.lease_until + interval '4 seconds'";
        (world.count(moved).await == 1).then_some(())
    })
    .await;
    scripted.release();
    world.reaches(order.delivery_id, Status::Sent).await;
    world.acknowledged(1).await;
    assert_eq!(scripted.calls().len(), 1);
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
}

#[tokio::test]
async fn a_call_that_has_not_sent_its_message_ends_when_another_worker_has_the_claim() {
    let world = world().await;
    let scripted = long([Step::WhileHeld]);
    let order = called(&world, &scripted).await;
    world.run("UPDATE delivery SET token = gen_random_uuid(), lease_until = now() + interval '1 hour'").await;
    eventually(SOON, "the call ends", async || (scripted.lost_leases() == 1).then_some(())).await;
    world.reaches(order.delivery_id, Status::Sending).await;
    assert_eq!(world.count("SELECT count(*) FROM attempt").await, 0);
}

#[tokio::test]
async fn a_call_that_has_not_sent_its_message_ends_with_the_lease_if_the_database_is_unreachable() {
    let mut world = world().await;
    let scripted = long([Step::WhileHeld]);
    let order = called(&world, &scripted).await;
    world.postgres.kill();
    eventually(SOON, "the call ends", async || (scripted.lost_leases() == 1).then_some(())).await;
    world.postgres.restart().await.unwrap();
    eventually(SOON, "the answer is recorded, because no other worker claimed the delivery", async || {
        let named = [(world.app, order.delivery_id)];
        let states = world.context.store.deliveries().delivery_states(&named).await.ok()?;
        (states[0].status == Status::Retrying).then_some(())
    })
    .await;
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_stopping_process_ends_calls_that_have_not_sent_their_message_and_records_a_certain_outcome() {
    let world = world().await;
    let scripted = long([Step::WhileHeld]);
    called(&world, &scripted).await;
    stop(&world.context).await;
    let certain = "SELECT count(*) FROM attempt WHERE provider_code = 'lease_ended' AND outcome <> 'unknown'";
    assert_eq!(world.count(certain).await, 1);
}

#[tokio::test]
async fn slow_providers_of_one_app_do_not_use_up_the_calls_of_another() {
    let mut world = World::with(|config| {
        config.delivery.lease = LEASE;
        config.delivery.ack_wait = LONG;
        config.delivery.max_concurrency = 4;
    })
    .await;
    world.provider("second", None).await;
    let scripted = long((0..4).map(|_| Step::Hold(SENT)));
    for number in 1..=20 {
        let only = Some(if number % 2 == 0 { "main" } else { "second" }.to_owned());
        let order = world.delivery(number).await;
        world.order(&DeliveryJob { route: Route { only, ..Route::default() }, ..order }).await;
    }
    world.serve(&scripted);
    eventually(SOON, "every call of the lane is slow", async || (scripted.calls().len() >= 4).then_some(()))
        .await;
    world.app = world.app("another").await;
    world.provider("main", None).await;
    let order = world.delivery(100).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    scripted.release();
}
