//! Jobs whose deliveries are missing from the database, because it is older than the log.

use std::time::Duration;

use domain::{Actor, Status};
use service_kit::clock;
use store::deliveries::redrive::ParkedFilter;
use testkit::eventually;

use crate::scripted::ScriptedChannel;
use crate::world::{SOON, World, job};

#[tokio::test]
async fn a_job_waits_for_its_missing_delivery() {
    let world = World::with(|config| config.delivery.ack_wait = Duration::from_secs(1)).await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    world.order(&job(1)).await;
    eventually(SOON, "the job was left more often than a job may fail", async || {
        (world.count("SELECT coalesce(max(failures), 0)::bigint FROM message_failure").await > 5)
            .then_some(())
    })
    .await;
    let order = world.delivery(1).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    world.acknowledged(1).await;
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}

#[tokio::test]
async fn a_job_whose_delivery_is_missing_for_a_day_is_parked_and_can_be_redriven() {
    let world = World::with(|config| config.delivery.ack_wait = Duration::from_secs(1)).await;
    // The job was left for a day, once per second, but twice.
    let left = "INSERT INTO message_failure (stream, seq, failures, cause)
                VALUES ('JOB_email_transactional', 1, 24 * 3600 - 2, 'missing')";
    world.run(left).await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    world.order(&job(1)).await;
    world.acknowledged(1).await;
    let parked = "SELECT count(*) FROM parked WHERE cause = 'the delivery is missing from the database'";
    assert_eq!(world.count(parked).await, 1);
    eventually(SOON, "the count is deleted", async || {
        (world.count("SELECT count(*) FROM message_failure").await == 0).then_some(())
    })
    .await;
    // The delivery is restored by hand.
    let order = world.delivery(1).await;
    let redriven = world.context.store.deliveries();
    redriven.redrive(&ParkedFilter::default(), None, 10, clock::now(), &Actor::System).await.unwrap();
    world.fire_timers(1).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}
