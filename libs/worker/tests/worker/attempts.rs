//! What becomes of an attempt.

use std::time::Duration;

use domain::{Envelope, Event, Outcome, Status, StreamName};
use testkit::eventually;

use crate::scripted::{Call, RETRY, Scripted, Step};
use crate::world::{JOBS, SOON, World};

#[tokio::test]
async fn a_delivery_is_sent_told_and_acknowledged() {
    let world = World::start().await;
    let scripted = Scripted::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    let call = Call { delivery: order.delivery_id, attempt: 1, provider: "main".to_owned() };
    assert_eq!(scripted.calls(), [call]);
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
    // Without the U+0000 that PostgreSQL does not store.
    let attempt = "SELECT count(*) FROM attempt JOIN delivery ON delivery_id = id
                   WHERE number = 1 AND outcome = 'sent' AND provider_message = 'within'
                     AND attempt.provider_id = 'p-1' AND status = 'sent'";
    assert_eq!(world.count(attempt).await, 1);
}

#[tokio::test]
async fn a_retry_goes_by_timer_and_is_sent_then() {
    let world = World::start().await;
    let scripted = Scripted::new([Step::Answer(RETRY)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    let attempts: Vec<_> = scripted.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Sent)]);
    assert_eq!(world.count("SELECT count(*) FROM timer").await, 0);
}

#[tokio::test]
async fn after_the_last_retry_it_is_parked_with_its_next_attempt() {
    let world = World::start().await;
    let scripted = Scripted::new([Step::Answer(RETRY), Step::Answer(Outcome::Unknown)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Parked)]);
    let (stream, message): (String, Vec<u8>) =
        sqlx::query_as("SELECT stream, message FROM parked").fetch_one(&world.pool).await.unwrap();
    assert_eq!(stream, JOBS.to_string());
    let Event::DeliveryJob(parked) = Envelope::decode(&message).unwrap().event else { panic!("a job") };
    assert_eq!((parked.delivery_id, parked.attempt), (order.delivery_id, 3));
    assert_eq!(parked.content, order.content);
}

#[tokio::test]
async fn without_a_usable_provider_it_is_tried_again_later() {
    let world = World::start().await;
    world.run("DELETE FROM provider").await;
    world.provider("broken", Some(b"sealed by nobody")).await;
    let scripted = Scripted::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    assert_eq!(world.count("SELECT count(*) FROM attempt WHERE provider_code = 'no_provider'").await, 1);
    assert!(scripted.calls().is_empty());
}

#[tokio::test]
async fn a_dead_target_is_not_called_again() {
    let world = World::start().await;
    let scripted = Scripted::new([Step::Answer(Outcome::TargetGone)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    let other = world.delivery(2).await;
    world.run("UPDATE delivery SET target = 'user-1@example.com'").await;
    world.order(&other).await;
    world.acknowledged(2).await;
    assert_eq!(scripted.calls().len(), 1);
    assert_eq!(world.settlings().await, [(1, Status::Failed), (1, Status::Skipped)]);
    let suppressed = |event: &Event| matches!(event, Event::TargetSuppressed(_));
    assert_eq!(world.told().await.iter().filter(|event| suppressed(event)).count(), 1);
}

#[tokio::test]
async fn what_expired_meanwhile_is_not_called() {
    let world = World::start().await;
    let scripted = Scripted::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.run("UPDATE delivery SET expires_at = now()").await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert!(scripted.calls().is_empty());
    assert_eq!(world.settlings().await, [(1, Status::Expired)]);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_unknown() {
    let world = World::with(|config| config.delivery.lease = Duration::from_millis(500)).await;
    let scripted = Scripted::new([Step::Hold(RETRY)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    let timed_out = "SELECT count(*) FROM attempt WHERE outcome = 'unknown' AND provider_code = 'timeout'";
    assert_eq!(world.count(timed_out).await, 1);
}

#[tokio::test]
async fn calls_that_panic_are_attempts_and_the_last_one_parks() {
    let world = World::start().await;
    let scripted = Scripted::new([Step::Panic, Step::Panic]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.fire_timers(1).await;
    world.acknowledged(2).await;
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Parked)]);
    let panics = "SELECT count(*) FROM attempt WHERE outcome = 'unknown' AND provider_code = 'panic'";
    assert_eq!(world.count(panics).await, 2);
    let other = world.delivery(2).await;
    world.order(&other).await;
    world.reaches(other.delivery_id, Status::Sent).await;
}

#[tokio::test]
async fn a_settlement_that_the_database_refuses_stops_no_other_and_is_parked() {
    let world = World::with(|config| config.delivery.lease = Duration::from_secs(1)).await;
    world.run("ALTER TABLE attempt ADD CHECK (delivery_id <> '00000000-0000-0000-0000-000000000001')").await;
    let scripted = Scripted::new([]);
    for number in 1..=20 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    world.acknowledged(20).await;
    assert_eq!(world.settlings().await, vec![(1, Status::Sent); 19]);
    assert_eq!(world.count("SELECT count(*) FROM parked WHERE stream = 'JOB_email_transactional'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn the_failures_of_a_job_that_is_done_later_are_forgotten() {
    let world = World::with(|config| config.delivery.lease = Duration::from_secs(1)).await;
    world.run("ALTER TABLE attempt ADD CONSTRAINT refused CHECK (number > 1)").await;
    let scripted = Scripted::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    eventually(SOON, "a failure is counted", async || {
        (world.count("SELECT count(*) FROM message_failure").await == 1).then_some(())
    })
    .await;
    world.run("ALTER TABLE attempt DROP CONSTRAINT refused").await;
    world.reaches(order.delivery_id, Status::Sent).await;
    eventually(SOON, "it is forgotten", async || {
        (world.count("SELECT count(*) FROM message_failure").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_more_jobs_are_taken_than_can_be_started() {
    let world = World::with(|config| {
        config.delivery.max_concurrency = 2;
        config.delivery.ack_wait = SOON;
    })
    .await;
    let scripted = Scripted::new((0..3).map(|_| Step::Hold(Outcome::Failed)));
    world.serve(&scripted);
    for number in 1..=8 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    eventually(SOON, "two are under way", async || (scripted.calls().len() == 2).then_some(())).await;
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!((progress.ack_pending, progress.pending), (2, 6));
    scripted.release();
    world.acknowledged(8).await;
    assert_eq!(scripted.calls().len(), 8);
}

#[tokio::test]
async fn a_message_that_is_no_job_is_parked_and_the_others_pass() {
    let world = World::start().await;
    let scripted = Scripted::new([]);
    world.serve(&scripted);
    world.publish(JOBS, None, b"{".to_vec()).await;
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    world.acknowledged(2).await;
    assert_eq!(world.count("SELECT count(*) FROM parked WHERE message = '{'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn outcomes_that_find_the_log_full_become_timers() {
    let world = World::with(|config| config.nats.max_messages = 2).await;
    let scripted = Scripted::new([]);
    for filler in ["a", "b"] {
        world.publish(StreamName::Outcome, None, filler.as_bytes().to_vec()).await;
    }
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert_eq!(world.count("SELECT count(*) FROM timer WHERE stream = 'OUTCOME'").await, 1);
}
