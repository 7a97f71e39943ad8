//! Nearly full streams: messages that wait, messages that are still published, and what happens when there is room again.

use std::sync::Arc;

use domain::event::{ChunkPlanned, SendContinues, UserErased};
use domain::send::SendRequest;
use domain::{Channel, Envelope, Event, Lane, StreamName, UserNumber};
use event_log::EventLog;
use service_kit::{Fullness, clock};
use store::deliveries::timer::NewTimer;
use store::inbox::projection::INBOX;
use store::sends::chunk::Chunk;
use store::webhooks::WEBHOOKS;
use testkit::eventually;

use crate::world::{PARTITIONS, SOON, World, person, send_number, send_to};

const ROOM: i64 = 40;
const JOBS: StreamName = StreamName::Job(Channel::Email, Lane::Transactional);

async fn small_world() -> World {
    let world = Box::pin(World::with(|config| config.nats.max_messages = ROOM)).await;
    world.provider(Channel::Email).await;
    world
}

impl World {
    /// Returns a message to fill streams with. No service reads it in these tests.
    fn filling(&self) -> Vec<u8> {
        let planned = ChunkPlanned {
            chunk: 0,
            recipients: 0,
            in_app: 0,
            deliveries: 0,
            skipped: 0,
            decided: None,
            expansion: None,
        };
        self.envelope(Event::ChunkPlanned(planned)).encode().unwrap()
    }

    fn envelope(&self, event: Event) -> Envelope {
        let (id, at) = (clock::new_id(), clock::now());
        Envelope { id, app: self.app, at, send_id: None, caused_by: None, trace: None, event }
    }

    async fn fill(&self, stream: StreamName, messages: i64) {
        for _ in 0..messages {
            self.publish(stream, self.filling()).await;
        }
    }

    fn log(&self) -> &EventLog {
        &self.context.log
    }

    /// Accepts a send to `people` users with an email address. Each user gets an inbox item and an email.
    async fn accept_for(&self, lane: Lane, people: usize) {
        let recipients = (0..people).map(|number| {
            let mut recipient = person(&format!("person-{number}"));
            let email = serde_json::json!({"email": format!("person-{number}@example.com")});
            recipient.profile = email.as_object().cloned();
            recipient
        });
        let mut send = send_to(recipients.collect());
        send.lane = lane;
        self.accept(&send).await;
    }
}

#[tokio::test]
async fn a_lane_waits_while_a_stream_that_it_adds_to_is_nearly_full() {
    let world = small_world().await;
    world.fill(JOBS, ROOM * 8 / 10).await;
    world.accept_for(Lane::Transactional, 1).await;
    world.accept_for(Lane::Bulk, 1).await;
    world.serve();
    world.dispatched(Lane::Bulk, 1).await;
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 1, "only the bulk send is planned");
    assert_eq!(world.last_seq(JOBS).await, 32);

    world.log().purge_below(JOBS, 2).await.unwrap();
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(world.last_seq(JOBS).await, 33);
}

#[tokio::test]
async fn jobs_that_do_not_fit_a_stream_are_published_when_it_has_room() {
    let world = small_world().await;
    // The jobs of 160 recipients are 10 messages.
    world.fill(JOBS, 31).await;
    world.accept_for(Lane::Transactional, 160).await;
    world.serve();
    world.dispatched(Lane::Transactional, 1).await;
    let waiting = "SELECT count(*) FROM timer";
    assert_eq!(world.count(waiting).await, 16, "the stream has room for 9 of the 10 messages");
    assert_eq!(world.last_seq(JOBS).await, 40);

    world.log().purge_below(JOBS, 32).await.unwrap();
    eventually(SOON, "the jobs are published", async || (world.count(waiting).await == 0).then_some(()))
        .await;
    let mut jobs: Vec<_> = world.jobs(Channel::Email).await.into_iter().map(|job| job.delivery_id).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), 160);
}

#[tokio::test]
async fn outcomes_and_erasures_use_the_reserved_room() {
    let world = small_world().await;
    let inbox = StreamName::Inbox(0);
    for stream in [inbox, StreamName::Outcome, JOBS] {
        world.fill(stream, ROOM * 8 / 10).await;
    }
    let timer = |stream, send_id, event| NewTimer {
        id: clock::new_id(),
        due_at: clock::now(),
        stream,
        message: world.envelope(event).encode().unwrap(),
        app: world.app,
        send_id,
        user: None,
        wait: None,
    };
    let erased = || Event::UserErased(UserErased { user: UserNumber(1), digest: None });
    let timers = [
        timer(JOBS, Some(send_number(1)), erased()),
        timer(inbox, Some(send_number(1)), erased()),
        timer(inbox, None, erased()),
        timer(StreamName::Outcome, Some(send_number(1)), erased()),
    ];
    world.context.store.deliveries().set_timers(&timers).await.unwrap();
    world.serve();
    eventually(SOON, "the allowed timers are published", async || {
        (world.count("SELECT count(*) FROM timer").await == 2).then_some(())
    })
    .await;
    // In this test no process follows OUTCOME for webhooks, so the janitor has already made room in that stream.
    assert_eq!((world.last_seq(inbox).await, world.last_seq(StreamName::Outcome).await), (33, 33));
    assert_eq!(world.last_seq(JOBS).await, 32);

    for stream in [inbox, JOBS] {
        world.log().purge_below(stream, 20).await.unwrap();
    }
    eventually(SOON, "the other timers are published", async || {
        (world.count("SELECT count(*) FROM timer").await == 0).then_some(())
    })
    .await;
    assert_eq!((world.last_seq(inbox).await, world.last_seq(JOBS).await), (34, 33));
}

#[tokio::test]
async fn a_due_send_is_published_to_a_stream_that_newer_sends_have_nearly_filled() {
    let world = small_world().await;
    let sends = StreamName::Send(Lane::Transactional);
    world.fill(JOBS, ROOM * 8 / 10).await;
    for _ in 0..ROOM * 8 / 10 {
        world.accept_for(Lane::Transactional, 0).await;
    }
    let now = clock::now();
    let send = Arc::new(SendRequest { send_at: Some(now), ..send_to(vec![person("ada")]) });
    let chunk = Chunk::listed(world.app, send_number(1), 0, now, send);
    let continues =
        world.envelope(Event::SendContinues(SendContinues { chunk: 0, expansion: None, has_topics: false }));
    let envelope = Envelope { send_id: Some(chunk.send_id), ..continues };
    let timer = NewTimer {
        id: envelope.id,
        due_at: now,
        stream: sends,
        message: envelope.encode().unwrap(),
        app: world.app,
        send_id: Some(chunk.send_id),
        user: None,
        wait: None,
    };
    assert!(world.context.store.sends().schedule(&chunk, &timer).await.unwrap());
    world.serve();
    eventually(SOON, "the due send is published", async || (world.last_seq(sends).await == 33).then_some(()))
        .await;
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 0, "the lane waits");

    world.log().purge_below(JOBS, 20).await.unwrap();
    world.dispatched(Lane::Transactional, 33).await;
    assert_eq!(world.inboxes().await.len(), 1);
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_does_not_hide_another_full_stream() {
    let world = small_world().await;
    world.fill(JOBS, ROOM * 8 / 10).await;
    let fullness = Fullness::new(0.8, [StreamName::Inbox(PARTITIONS), JOBS]);
    fullness.refresh(world.log()).await;
    assert!(fullness.is_full(JOBS));
}

#[tokio::test]
async fn only_as_many_read_messages_as_necessary_are_removed_from_a_crowded_stream() {
    let world = small_world().await;
    let sends = StreamName::Send(Lane::Transactional);
    world.serve();
    // All but the last message are read before the stream is crowded.
    for _ in 0..27 {
        world.accept_for(Lane::Transactional, 0).await;
    }
    world.dispatched(Lane::Transactional, 27).await;
    world.accept_for(Lane::Transactional, 0).await;
    let state = eventually(SOON, "the stream has room", async || {
        let state = world.log().state(sends).await.unwrap();
        (state.messages < 28).then_some(state)
    })
    .await;
    assert_eq!((state.first_seq, state.last_seq), (5, 28), "24 messages remain");
    world.dispatched(Lane::Transactional, 28).await;
}

#[tokio::test]
async fn unread_messages_stay_in_a_crowded_stream() {
    let world = small_world().await;
    world.fill(JOBS, 36).await;
    world.fill(StreamName::Outcome, 36).await;
    world.serve();
    // OUTCOME has room again only after the janitor has checked both streams.
    eventually(SOON, "the stream has room", async || {
        (world.log().state(StreamName::Outcome).await.unwrap().messages < 36).then_some(())
    })
    .await;
    assert_eq!(world.log().state(JOBS).await.unwrap().messages, 36);
}

#[tokio::test]
async fn sends_that_fill_the_store_are_planned_and_then_removed() {
    let world = World::with(|_| {}).await;
    let large = "x".repeat(60_000);
    let mut send = send_to(vec![]);
    send.content.message = Some(large);
    for _ in 0..16 {
        world.accept(&send).await;
    }
    world.log().limit_store(1_000_000);
    assert!(world.log().store_use().await.unwrap().fill() > 0.95);
    world.serve();
    world.dispatched(Lane::Transactional, 16).await;
    eventually(SOON, "the store has room", async || {
        (world.log().store_use().await.unwrap().fill() < 0.7).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lane_waits_while_jobs_and_inbox_events_fill_the_store() {
    let world = World::with(|_| {}).await;
    for _ in 0..19 {
        world.publish(StreamName::Inbox(0), vec![b'x'; 50_000]).await;
    }
    world.log().limit_store(1_000_000);
    world.accept(&send_to(vec![person("ada")])).await;
    let sends = StreamName::Send(Lane::Transactional);
    let fullness = Fullness::new(0.8, [StreamName::Inbox(0), sends]);
    fullness.refresh(world.log()).await;
    assert!(fullness.is_full(StreamName::Inbox(0)) && fullness.is_full(sends));
    world.serve();
    // The outcome of another lane shows that the dispatcher runs.
    world.fill(StreamName::Outcome, 3).await;
    eventually(SOON, "read messages are removed", async || {
        (world.log().state(StreamName::Outcome).await.unwrap().first_seq > 1).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 0);

    world.log().purge_below(StreamName::Inbox(0), 10).await.unwrap();
    world.dispatched(Lane::Transactional, 1).await;
}

#[tokio::test]
async fn events_that_webhooks_have_not_read_stay_from_their_first_start_on() {
    let world = small_world().await;
    let database = world.context.store.database();
    assert!(database.start_checkpoint(WEBHOOKS, StreamName::Outcome, 0).await.unwrap());
    assert!(!database.start_checkpoint(WEBHOOKS, StreamName::Outcome, 0).await.unwrap());
    // The inbox has read all of its stream, including the messages that follow below.
    let (inbox, read) = (StreamName::Inbox(0), 100);
    assert!(database.start_checkpoint(INBOX, inbox, read).await.unwrap());
    world.fill(StreamName::Outcome, 36).await;
    world.fill(inbox, 36).await;
    world.serve();
    // A lane waits while OUTCOME is full, so no send can show that the janitor runs. When it makes room for the third time, its
    // second round is over, and that included OUTCOME.
    let mut first = 1;
    for _ in 0..3 {
        first = eventually(SOON, "the other stream has room", async || {
            let state = world.log().state(inbox).await.unwrap();
            (state.first_seq > first).then_some(state.first_seq)
        })
        .await;
        let left = world.log().state(inbox).await.unwrap().messages;
        world.fill(inbox, 36 - i64::try_from(left).unwrap()).await;
    }
    assert_eq!(world.log().state(StreamName::Outcome).await.unwrap().messages, 36);
}
