//! Attempts and their outcomes.

use std::time::Duration;

use domain::outcome::RetryLimit;
use domain::{Actor, Envelope, Event, Outcome, Status, StreamName, TargetDeath, Timestamp};
use service_kit::clock;
use store::deliveries::redrive::ParkedFilter;
use testkit::eventually;

use crate::scripted::{Call, RETRY, ScriptedChannel, Step};
use crate::world::{JOBS, SEND, SOON, World};

/// SQL function that extracts from a delivery's id the number that the test passed to `World::delivery`.
const NUMBER: &str =
    "CREATE FUNCTION number(uuid) RETURNS int IMMUTABLE RETURN ('x' || right($1::text, 8))::bit(32)::int";
/// Trigger that refuses claims until a failure of a message is counted.
const REFUSED_UNTIL_COUNTED: &str = "
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NOT EXISTS (SELECT FROM message_failure) THEN RAISE check_violation; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON delivery FOR EACH ROW
      WHEN (NEW.status = 'sending') EXECUTE FUNCTION refuse();";

#[tokio::test]
async fn a_delivery_is_sent_published_and_acknowledged() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    let call = Call { delivery: order.delivery_id, attempt: 1, provider: "main".to_owned() };
    assert_eq!(scripted.calls(), [call]);
    assert_eq!(world.settlings().await, [(1, Status::Sent)]);
    // The recorded message lacks the U+0000 that the provider sent, because PostgreSQL cannot store it.
    let attempt = "SELECT count(*) FROM attempt JOIN delivery ON delivery_id = id
                   WHERE number = 1 AND outcome = 'sent' AND provider_message = 'within'
                     AND attempt.provider_id = 'p-1' AND status = 'sent'";
    assert_eq!(world.count(attempt).await, 1);
}

#[tokio::test]
async fn a_retry_waits_as_a_timer_and_is_then_sent() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Answer(RETRY)]);
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
    let scripted = ScriptedChannel::new([Step::Answer(RETRY), Step::Answer(Outcome::Unknown)]);
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
    let Event::DeliveryJob(parked) = Envelope::decode(&message).unwrap().event else { panic!("not a job") };
    assert_eq!((parked.delivery_id, parked.attempt), (order.delivery_id, 3));
    assert_eq!(parked.content, order.content);
}

#[tokio::test]
async fn a_delivery_without_a_usable_provider_is_retried_later() {
    let world = World::start().await;
    world.run("DELETE FROM provider").await;
    world.provider("broken", Some(b"not sealed by us")).await;
    let scripted = ScriptedChannel::new([]);
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
    let scripted = ScriptedChannel::new([Step::Answer(Outcome::GONE)]);
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
    assert_eq!(world.published_events().await.iter().filter(|event| suppressed(event)).count(), 1);
}

#[tokio::test]
async fn an_expired_delivery_is_not_called() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.run("UPDATE delivery SET expires_at = now()").await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert!(scripted.calls().is_empty());
    assert_eq!(world.settlings().await, [(1, Status::Expired)]);
}

#[tokio::test]
async fn a_retry_that_a_cancellation_ends_is_published() {
    let world = World::with(|config| config.delivery.retry_schedule = vec![Duration::ZERO, SOON * 100]).await;
    let scripted = ScriptedChannel::new([Step::Answer(RETRY)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world
        .run(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             SELECT app_id, send_id, now(), 'transactional', 0 FROM delivery",
        )
        .await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert_eq!(
        world.context.store.deliveries().cancel_request(world.app, SEND, &Actor::System).await.unwrap(),
        1
    );
    // One timer holds the retry, the other the cancellation event.
    world.fire_timers(2).await;
    world.acknowledged(2).await;
    assert_eq!(world.settlings().await, [(1, Status::Retrying), (2, Status::Cancelled)]);
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_unknown() {
    let world = World::with(|config| config.delivery.lease = Duration::from_millis(500)).await;
    let scripted = ScriptedChannel::new([Step::Hold(RETRY)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    world.reaches(order.delivery_id, Status::Retrying).await;
    let timed_out = "SELECT count(*) FROM attempt WHERE outcome = 'unknown' AND provider_code = 'timeout'";
    assert_eq!(world.count(timed_out).await, 1);
}

#[tokio::test]
async fn panicking_calls_count_as_attempts_and_the_last_one_parks_the_job() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([Step::Panic, Step::Panic]);
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
async fn an_answer_that_the_database_rejects_is_settled_without_its_text_and_blocks_no_other() {
    let world = World::start().await;
    world.run(NUMBER).await;
    world
        .run("ALTER TABLE attempt ADD CHECK (provider_code <> 'scripted' OR number(delivery_id) <> 1)")
        .await;
    let scripted = ScriptedChannel::new([]);
    for number in 1..=20 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    world.acknowledged(20).await;
    assert_eq!(world.settlings().await, vec![(1, Status::Sent); 20]);
    assert_eq!(scripted.calls().len(), 20);
    let reduced =
        "SELECT count(*) FROM attempt WHERE number(delivery_id) = 1 AND provider_code = 'unstorable'";
    assert_eq!(world.count(reduced).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn an_attempt_that_the_database_refuses_even_without_text_ends_and_is_not_repeated() {
    let world = World::start().await;
    world.run(NUMBER).await;
    world.run("ALTER TABLE attempt ADD CHECK (number(delivery_id) > 2)").await;
    let scripted = ScriptedChannel::new([Step::Answer(RETRY)]);
    world.serve(&scripted);
    let (again, sent) = (world.delivery(1).await, world.delivery(2).await);
    world.order(&again).await;
    world.acknowledged(1).await;
    world.order(&sent).await;
    world.acknowledged(2).await;
    assert_eq!(world.settlings().await, [(1, Status::Failed), (1, Status::Sent)]);
    assert_eq!(scripted.calls().len(), 2);
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE reason = 'retries_exhausted'").await, 1);
}

#[tokio::test]
async fn a_job_whose_end_cannot_be_recorded_is_parked_and_not_called_again() {
    let world = World::with(|config| config.delivery.lease = Duration::from_secs(1)).await;
    world.run("ALTER TABLE delivery ADD CONSTRAINT refused CHECK (status <> 'sent')").await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn a_claim_that_the_database_refuses_counts_as_the_jobs_own_failure_and_stops_no_other() {
    let world = World::start().await;
    world.run(NUMBER).await;
    world.run("ALTER TABLE delivery ADD CHECK (status <> 'sending' OR number(id) <> 1)").await;
    let scripted = ScriptedChannel::new([]);
    for number in 1..=20 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    world.serve(&scripted);
    world.acknowledged(20).await;
    assert_eq!(world.settlings().await, vec![(1, Status::Sent); 19]);
    assert_eq!(scripted.calls().len(), 19);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 1);
}

#[tokio::test]
async fn a_target_registered_after_it_died_is_not_published_as_suppressed() {
    let world = World::start().await;
    let dead = Outcome::TargetGone(TargetDeath { since: Some(Timestamp::from_millis(1)), here_only: false });
    let scripted = ScriptedChannel::new([Step::Answer(dead)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.run("UPDATE delivery SET channel = 'mobilePush'").await;
    world
        .run("INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE SELECT app_id, 1, 'ada' FROM delivery")
        .await;
    world
        .run("INSERT INTO push_token (app_id, target, user_number, registered_at) SELECT app_id, target, 1, now() FROM delivery")
        .await;
    world.order(&order).await;
    world.acknowledged(1).await;
    // When the job is redelivered, the worker publishes the same outcome again.
    world.order(&order).await;
    world.acknowledged(2).await;
    assert_eq!(world.settlings().await, [(1, Status::Failed)]);
    assert_eq!(world.published_events().await.len(), 1);
    assert_eq!(world.count("SELECT count(*) FROM suppression").await, 0);
}

#[tokio::test]
async fn a_short_schedule_counts_its_own_attempts_and_restarts_after_a_redrive() {
    let world = World::with(|config| config.delivery.retry_schedule = vec![Duration::ZERO; 3]).await;
    let once = Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 1, over: Duration::ZERO }) };
    let outcomes = [RETRY, once.clone(), RETRY, once.clone(), once];
    let scripted = ScriptedChannel::new(outcomes.map(Step::Answer));
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    for attempt in 1..=2 {
        world.acknowledged(attempt).await;
        world.fire_timers(1).await;
    }
    world.acknowledged(3).await;
    let now = clock::now();
    world
        .context
        .store
        .deliveries()
        .redrive(&ParkedFilter::default(), None, 10, now, &Actor::System)
        .await
        .unwrap();
    for attempt in 3..=4 {
        world.acknowledged(attempt).await;
        world.fire_timers(1).await;
    }
    world.acknowledged(5).await;
    let (retrying, parked, failed) = (Status::Retrying, Status::Parked, Status::Failed);
    assert_eq!(
        world.settlings().await,
        [(1, retrying), (2, retrying), (3, parked), (4, retrying), (5, failed)]
    );
}

#[tokio::test]
async fn the_failure_count_of_a_job_is_deleted_when_the_job_succeeds() {
    let world = World::with(|config| config.delivery.lease = Duration::from_secs(1)).await;
    world.run(REFUSED_UNTIL_COUNTED).await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sent).await;
    eventually(SOON, "the counted failure is removed", async || {
        (world.count("SELECT count(*) FROM message_failure").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_job_of_a_long_call_is_not_redelivered() {
    let world = World::with(|config| config.delivery.ack_wait = Duration::from_secs(3)).await;
    let scripted = ScriptedChannel::new([Step::Hold(Outcome::Failed)]);
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.reaches(order.delivery_id, Status::Sending).await;
    eventually(SOON, "the call has lasted longer than `ack_wait`", async || {
        let passed = "SELECT count(*) FROM delivery WHERE lease_until < now() + interval '85 seconds'";
        (world.count(passed).await == 1).then_some(())
    })
    .await;
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!((progress.ack_pending, progress.redelivered), (1, 0));
    scripted.release();
    world.acknowledged(1).await;
    assert_eq!(scripted.calls().len(), 1);
}

#[tokio::test]
async fn no_more_jobs_are_fetched_than_can_start() {
    let world = World::with(|config| {
        config.delivery.max_concurrency = 2;
        config.delivery.ack_wait = SOON;
    })
    .await;
    let scripted = ScriptedChannel::new((0..3).map(|_| Step::Hold(Outcome::Failed)));
    world.serve(&scripted);
    for number in 1..=8 {
        let order = world.delivery(number).await;
        world.order(&order).await;
    }
    eventually(SOON, "two calls are in progress", async || (scripted.calls().len() == 2).then_some(())).await;
    let progress = world.context.log.consumer_progress(JOBS, "email").await.unwrap().unwrap();
    assert_eq!((progress.ack_pending, progress.pending), (2, 6));
    scripted.release();
    world.acknowledged(8).await;
    assert_eq!(scripted.calls().len(), 8);
}

#[tokio::test]
async fn a_message_that_is_not_a_job_is_parked_and_does_not_block_others() {
    let world = World::start().await;
    let scripted = ScriptedChannel::new([]);
    world.serve(&scripted);
    world.publish(JOBS, b"{".to_vec()).await;
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
    let scripted = ScriptedChannel::new([]);
    for filler in ["a", "b"] {
        world.publish(StreamName::Outcome, filler.as_bytes().to_vec()).await;
    }
    world.serve(&scripted);
    let order = world.delivery(1).await;
    world.order(&order).await;
    world.acknowledged(1).await;
    assert_eq!(world.count("SELECT count(*) FROM timer WHERE stream = 'OUTCOME'").await, 1);
}
