//! Chunks, scheduled sends, and repeated events.

use std::collections::HashSet;

use domain::send::SendRequest;
use domain::{Actor, Channel, Event, Lane, StreamName, Timestamp};
use service_kit::clock;
use testkit::eventually;

use crate::world::{SOON, World, person, send_to};

#[tokio::test]
async fn a_large_send_takes_several_chunks_and_reaches_every_inbox_once() {
    let world = World::start().await;
    let people = (0..1_200).map(|number| person(&format!("user-{number}"))).collect();
    let send_id = world.accept(&SendRequest { lane: Lane::Bulk, ..send_to(people) }).await;
    world.dispatched(Lane::Bulk, 3).await;
    let items = world.inboxes().await;
    let users: HashSet<_> = items.iter().map(|(_, user, _)| user.0).collect();
    assert_eq!((items.len(), users.len()), (1_200, 1_200));
    let numbers: Vec<i64> =
        sqlx::query_scalar("SELECT number FROM app_user").fetch_all(&world.pool).await.unwrap();
    assert_eq!(users, numbers.into_iter().collect());
    assert!(items.iter().all(|(send, ..)| *send == send_id));
    let planned =
        world.events_in(StreamName::Outcome).await.into_iter().map(|envelope| match envelope.event {
            Event::ChunkPlanned(planned) => (planned.chunk, planned.recipients, planned.in_app),
            other => panic!("{other:?}"),
        });
    assert_eq!(planned.collect::<Vec<_>>(), [(0, 500, 500), (1, 500, 500), (2, 200, 200)]);
    assert_eq!(world.count("SELECT count(*) FROM request WHERE recipients = 1200 AND body IS NULL").await, 1);
}

#[tokio::test]
async fn a_scheduled_send_is_kept_until_its_time() {
    let world = World::start().await;
    // The time is far in the future, so that the send certainly waits. Then the test moves the timer instead of waiting.
    let send_at = Timestamp::from_millis(clock::now().millis() + 3_600_000);
    world.accept(&SendRequest { send_at: Some(send_at), ..send_to(vec![person("ada")]) }).await;
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM request WHERE body IS NOT NULL").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM timer").await, 1);
    let due: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("SELECT due_at FROM timer").fetch_one(&world.pool).await.unwrap();
    assert_eq!(Timestamp::from(due), send_at);

    sqlx::query("UPDATE timer SET due_at = now()").execute(&world.pool).await.unwrap();
    world.dispatched(Lane::Transactional, 2).await;
    assert_eq!(world.inboxes().await.len(), 1);
    for partition in 0..crate::world::PARTITIONS {
        for envelope in world.events_in(StreamName::Inbox(partition)).await {
            assert!(matches!(envelope.event, Event::InboxItemsAdded(added) if added.created_at == send_at));
        }
    }
    assert_eq!(world.count("SELECT count(*) FROM request WHERE body IS NULL").await, 1);
    eventually(SOON, "the timer is gone", async || {
        (world.count("SELECT count(*) FROM timer").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_scheduled_send_whose_chunk_is_already_frozen_is_carried_out_at_once() {
    let world = World::with(|_| {}).await;
    world.provider(Channel::Email).await;
    // The send was due by the clock of another dispatcher, which froze the chunk and then died.
    let send_at = Timestamp::from_millis(clock::now().millis() + 3_600_000);
    let send = SendRequest { send_at: Some(send_at), ..send_to(vec![person("ada@example.com")]) };
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;

    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!((world.inboxes().await.len(), world.jobs(Channel::Email).await.len()), (1, 1));
    assert_eq!(world.count("SELECT count(*) FROM timer").await, 0);
}

#[tokio::test]
async fn a_delivery_cancelled_before_its_job_still_gets_a_job_that_publishes_the_outcome() {
    let world = World::with(|_| {}).await;
    world.provider(Channel::Email).await;
    let send = send_to(vec![person("ada@example.com")]);
    let send_id = world.accept(&send).await;
    world.freeze(send_id, &send).await;
    assert_eq!(
        world.context.store.deliveries().cancel_request(world.app, send_id, &Actor::System).await.unwrap(),
        1
    );

    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status = 'cancelled'").await, 1);
    assert_eq!(world.jobs(Channel::Email).await.len(), 1);
}

#[tokio::test]
async fn a_redelivered_send_adds_no_items_and_no_jobs() {
    let world = World::start().await;
    world.provider(Channel::Email).await;
    let send = send_to(vec![person("ada@example.com"), person("bob@example.com")]);
    let send_id = world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    let before: HashSet<_> = world.inboxes().await.into_iter().map(|(send, user, _)| (send, user)).collect();
    assert_eq!((before.len(), world.jobs(Channel::Email).await.len()), (2, 2));
    // Another user with the same identifier must not get the first user's messages.
    sqlx::query("DELETE FROM app_user WHERE identifier = 'ada@example.com'")
        .execute(&world.pool)
        .await
        .unwrap();
    world
        .context
        .store
        .directory()
        .merge_user(world.app, "ada@example.com", Default::default())
        .await
        .unwrap();
    world.accept_as(send_id, &send).await;
    world.dispatched(Lane::Transactional, 2).await;
    let after: HashSet<_> = world.inboxes().await.into_iter().map(|(send, user, _)| (send, user)).collect();
    assert_eq!(after, before);
    assert_eq!(world.jobs(Channel::Email).await.len(), 2);
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 1);
}

#[tokio::test]
async fn the_next_chunk_is_ordered_only_after_all_messages_of_this_one_are_stored() {
    let world = World::with(|config| config.nats.max_messages = 40).await;
    world.provider(Channel::Email).await;
    let jobs = StreamName::Job(Channel::Email, Lane::Bulk);
    for _ in 0..31 {
        world.publish(jobs, b"filler".to_vec()).await;
    }
    // The stream is nearly full, so most jobs become timers. The lock on the table `timer` delays writing these timers.
    let mut held = world.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE timer IN EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
    world.serve();
    let people = (0..501).map(|number| person(&format!("user-{number}@example.com"))).collect();
    world.accept(&SendRequest { lane: Lane::Bulk, ..send_to(people) }).await;
    eventually(SOON, "the timers wait", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                       AND datname = current_database() AND query LIKE 'INSERT INTO timer%'";
        (world.count(waiting).await > 0).then_some(())
    })
    .await;
    assert_eq!(world.last_seq(StreamName::Send(Lane::Bulk)).await, 1);
    held.rollback().await.unwrap();
    eventually(SOON, "the message for the next chunk is published", async || {
        (world.last_seq(StreamName::Send(Lane::Bulk)).await == 2).then_some(())
    })
    .await;
    // The stream had room for 9 messages of 16 jobs.
    let waiting = world.count("SELECT count(*) FROM timer WHERE stream = 'JOB_email_bulk'").await;
    assert!(waiting >= 500 - 9 * 16, "{waiting}");
    assert!(world.inboxes().await.len() >= 500);
}
