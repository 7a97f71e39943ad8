//! Sizes of batches, and the return of fetched messages that do not fit into a batch.

use std::sync::Arc;
use std::time::Duration;

use domain::event::{SendContinues, bundle};
use domain::send::{Recipient, SendRequest};
use domain::{Envelope, Event, Lane, SendId, StreamName, Timestamp};
use event_log::{ConsumerSettings, Message};
use service_kit::clock;
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use testkit::eventually;

use crate::world::{PARTITIONS, SOON, World, accepted, person, send_to};

/// Number of unprojected events in each inbox partition. With one more, bulk sends wait.
const BEHIND: usize = 1_000;

fn crowd() -> Vec<Recipient> {
    (0..500).map(|number| person(&format!("user-{number}"))).collect()
}

impl World {
    async fn leave_inboxes_behind(&self) {
        for partition in 0..PARTITIONS {
            let stream = StreamName::Inbox(partition);
            let filling = || Message { stream, id: None, payload: b"filler".as_slice().into() };
            let published = self.context.log.publish_all((0..BEHIND).map(|_| filling()).collect()).await;
            assert!(published.iter().all(Result::is_ok));
        }
    }

    async fn planned_chunks(&self, chunks: i64) {
        eventually(SOON, "chunks are planned", async || {
            (self.count("SELECT count(*) FROM plan").await == chunks).then_some(())
        })
        .await;
    }

    /// Fetches the messages that the dispatcher has returned, as another dispatcher would.
    async fn await_returned(&self, lane: Lane, messages: usize) {
        let settings =
            ConsumerSettings { ack_wait: self.context.config.delivery.ack_wait, max_ack_pending: 2_000 };
        let stream = StreamName::Send(lane);
        let consumer = self.context.log.consumer(stream, dispatcher::DURABLE, settings).await.unwrap();
        let mut taken = Vec::new();
        eventually(SOON, "the messages outside the batch are returned", async || {
            taken.extend(consumer.fetch(messages, Duration::from_secs(1)).await.unwrap());
            (taken.len() == messages).then_some(())
        })
        .await;
        assert!(taken.iter().all(|delivered| delivered.deliveries == 2));
    }
}

#[tokio::test]
async fn a_bulk_batch_returns_the_rest_until_inboxes_catch_up() {
    let world = World::with(|_| {}).await;
    world.leave_inboxes_behind().await;
    // The first chunks are small. So the dispatcher then fetches more messages than it may plan in one batch of large chunks.
    for people in [0, 0, 500, 500, 500, 500] {
        let recipients = crowd().split_off(500 - people);
        world.accept(&SendRequest { lane: Lane::Bulk, ..send_to(recipients) }).await;
    }
    world.serve();
    world.planned_chunks(4).await;
    world.await_returned(Lane::Bulk, 2).await;
    world.planned_chunks(4).await;
}

#[tokio::test]
async fn a_stopping_dispatcher_returns_the_messages_it_has_not_started() {
    let world = World::with(|_| {}).await;
    // The first message is a full batch, so the batch does not depend on how many messages the first fetch returns.
    let sends: Vec<_> =
        (0..4).map(|_| accepted(world.app, SendId(clock::new_id()), &send_to(crowd()))).collect();
    let message = bundle::encode("SendAccepted", &sends);
    world.publish(StreamName::Send(Lane::Transactional), message.into()).await;
    for _ in 0..2 {
        world.accept(&send_to(crowd())).await;
    }
    let mut held = world.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE plan IN EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
    world.serve();
    eventually(SOON, "the first batch waits", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                       AND datname = current_database() AND query LIKE 'INSERT INTO plan%'";
        (world.count(waiting).await > 0).then_some(())
    })
    .await;
    world.context.tasks.stop();
    held.rollback().await.unwrap();
    world.await_returned(Lane::Transactional, 2).await;
    world.planned_chunks(4).await;
}

#[tokio::test]
async fn large_continued_sends_are_planned_a_few_at_a_time() {
    let world = World::with(|_| {}).await;
    let later = Timestamp::from_millis(clock::now().millis() + 3_600_000);
    let mut send = SendRequest { send_at: Some(later), ..send_to(vec![person("ada")]) };
    send.content.message = Some("x".repeat(700_000));
    let send = Arc::new(send);
    let stream = StreamName::Send(Lane::Transactional);
    for _ in 0..16 {
        let (id, now) = (clock::new_id(), clock::now());
        let (app, send_id) = (world.app, SendId(clock::new_id()));
        let event = Event::SendContinues(SendContinues { chunk: 0, expansion: None, has_topics: false });
        let envelope =
            Envelope { id, app, at: now, send_id: Some(send_id), caused_by: None, trace: None, event };
        let message = envelope.encode().unwrap();
        let timer = NewTimer {
            id,
            due_at: later,
            stream,
            message: message.clone(),
            app,
            send_id: Some(send_id),
            user: None,
            wait: None,
        };
        let chunk = Chunk::listed(app, send_id, 0, now, Arc::clone(&send));
        assert!(world.context.store.sends().schedule(&chunk, &timer).await.unwrap());
        world.publish(stream, message).await;
    }
    world.serve();
    world.dispatched(Lane::Transactional, 16).await;
    let largest = "SELECT max(turns) FROM (SELECT count(*) AS turns FROM plan GROUP BY planned_at) AS batch";
    let largest = world.count(largest).await;
    assert!(largest <= 12, "{largest} sends of 700 kB were planned at once");
}
