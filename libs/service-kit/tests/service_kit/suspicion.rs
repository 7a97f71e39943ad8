//! Messages whose handling ends the process.

use std::time::Duration;

use domain::event::RequestCancelled;
use domain::{AppId, Envelope, Event, Lane, SendId, StreamName, Timestamp};
use event_log::{Consumer, ConsumerSettings, DeliveredMessage};
use service_kit::work_stream::WorkStream;
use testkit::{Installation, eventually};
use uuid::Uuid;

const SENDS: StreamName = StreamName::Send(Lane::Transactional);
const SETTINGS: ConsumerSettings = ConsumerSettings { ack_wait: Duration::from_secs(1), max_ack_pending: 10 };
const SOON: Duration = Duration::from_secs(30);
const POISON: u128 = 2;

struct World {
    installation: Installation,
    consumer: Consumer,
}

impl World {
    /// Publishes three messages. The handling of the second ends the process.
    async fn start() -> World {
        World::with(SETTINGS).await
    }

    async fn with(settings: ConsumerSettings) -> World {
        let installation = Installation::start(|_| {}).await;
        let app = installation.app("shop").await;
        for number in 1..=3 {
            installation.publish(SENDS, message(app, number)).await;
        }
        let consumer = installation.context.consumer(SENDS, "dispatcher", settings).await.unwrap();
        World { installation, consumer }
    }

    async fn count(&self, query: &'static str) -> i64 {
        self.installation.count(query).await
    }

    /// Waits until the log delivers `count` messages.
    async fn delivered(&self, count: usize) -> Vec<DeliveredMessage> {
        let mut delivered = Vec::new();
        while delivered.len() < count {
            delivered.extend(self.consumer.fetch(count - delivered.len(), SOON).await.unwrap());
        }
        delivered
    }

    /// Handles messages in a process that ends if one of them is the poison. Returns true if it has ended.
    async fn process(&self, delivered: Vec<DeliveredMessage>) -> bool {
        let work_stream = WorkStream::new(self.installation.context.store.clone(), SENDS);
        for message in delivered {
            for (message, envelope) in work_stream.decode(message).await {
                if envelope.id.as_u128() == POISON {
                    return true;
                }
                work_stream.acknowledge(&message).await;
            }
        }
        false
    }
}

fn message(app: AppId, number: u128) -> Vec<u8> {
    let (id, send_id) = (Uuid::from_u128(number), Some(SendId(Uuid::from_u128(number))));
    let (at, event) = (Timestamp::from_millis(0), Event::RequestCancelled(RequestCancelled {}));
    Envelope { id, app, at, send_id, caused_by: None, trace: None, event }.encode().unwrap()
}

#[tokio::test]
async fn a_message_whose_handling_ended_the_process_several_times_is_parked_and_its_neighbours_are_handled() {
    let world = World::start().await;
    // Two processes end, and nothing is known about the messages that they had in hand.
    for _ in 0..2 {
        drop(world.delivered(3).await);
    }
    // The third process handles all of them at the same time.
    let work_stream = WorkStream::new(world.installation.context.store.clone(), SENDS);
    for message in world.delivered(3).await {
        assert_eq!(work_stream.decode(message).await.len(), 1);
    }
    assert_eq!(world.count("SELECT count(*) FROM message_failure WHERE unended = 1").await, 3);
    drop(work_stream);
    // From now on, each process handles them one after the other.
    let mut ended = 0;
    let mut left = 3;
    while left > 0 {
        // An acknowledgement may still be under way, so fewer messages may come.
        let delivered = world.consumer.fetch(left, SETTINGS.ack_wait * 2).await.unwrap();
        ended += usize::from(world.process(delivered).await);
        let progress = world.installation.context.log.consumer_progress(SENDS, "dispatcher").await;
        left = usize::try_from(progress.unwrap().unwrap().ack_pending).unwrap();
    }
    assert_eq!(ended, 2, "a third process ended with the mark of the first");
    let parked = "SELECT count(*) FROM parked WHERE send_id = '00000000-0000-0000-0000-000000000002' AND app_id IS NOT NULL
                    AND cause LIKE '3 processes ended%'";
    assert_eq!(world.count(parked).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn messages_of_processes_that_were_killed_are_not_blamed_once_a_handling_ends() {
    // The process returns all messages itself, so the log must not deliver one again during a slow round.
    let world = World::with(ConsumerSettings { ack_wait: SOON, ..SETTINGS }).await;
    let work_stream = WorkStream::new(world.installation.context.store.clone(), SENDS);
    // An outage returns the messages again and again.
    for _ in 0..6 {
        for message in world.delivered(3).await {
            let events = work_stream.decode(message).await;
            for (message, _) in events {
                work_stream.return_later(&message).await;
            }
        }
    }
    assert_eq!(world.count("SELECT count(*) FROM message_failure WHERE unended > 0").await, 0);
    for message in world.delivered(3).await {
        for (message, _) in work_stream.decode(message).await {
            work_stream.acknowledge(&message).await;
        }
    }
    eventually(SOON, "the messages are done", async || {
        (world.count("SELECT count(*) FROM message_failure").await == 0).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}

/// Lets the clock of the runtime pass 40 s, in which no handling ends.
async fn forty_seconds_pass() {
    // The timers of the watches must start before.
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(40)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_message_whose_handling_ends_the_process_after_more_than_30_s_is_parked() {
    let world = World::start().await;
    let mut ended = 0;
    let mut left = 3;
    while left > 0 {
        let work_stream = WorkStream::new(world.installation.context.store.clone(), SENDS);
        for message in world.consumer.fetch(3, SETTINGS.ack_wait * 2).await.unwrap() {
            for (message, envelope) in work_stream.decode(message).await {
                if envelope.id.as_u128() == POISON {
                    forty_seconds_pass().await;
                    ended += 1;
                } else {
                    work_stream.acknowledge(&message).await;
                }
            }
        }
        assert!(ended <= 5, "the marks are withdrawn although the handling continues");
        let progress = world.installation.context.log.consumer_progress(SENDS, "dispatcher").await;
        left = usize::try_from(progress.unwrap().unwrap().ack_pending).unwrap();
    }
    assert_eq!(ended, 5);
    assert_eq!(world.count("SELECT count(*) FROM parked WHERE cause LIKE '3 processes ended%'").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 1);
}

#[tokio::test]
async fn after_30_s_a_suspect_leaves_its_places_to_others_unless_two_processes_ended_during_its_handling() {
    let world = World::start().await;
    for _ in 0..2 {
        drop(world.delivered(3).await);
    }
    let work_stream = WorkStream::new(world.installation.context.store.clone(), SENDS);
    let mut delivered = world.delivered(3).await;
    let marked = async |seq: u64, ends: i32| {
        let mark = sqlx::query(
            "INSERT INTO message_failure (stream, seq, failures, cause, unended) VALUES ($1, $2, 0, '', $3)",
        );
        let mark = mark.bind(SENDS.to_string()).bind(seq.cast_signed()).bind(ends);
        mark.execute(&world.installation.pool).await.unwrap();
    };
    for message in &delivered {
        marked(message.seq, if message.seq == 1 { 1 } else { 2 }).await;
    }
    delivered.sort_by_key(|message| message.seq);
    let mut delivered = delivered.into_iter();
    let [first, second, third] = [(); 3].map(|()| delivered.next().unwrap());
    assert_eq!(work_stream.decode(first).await.len(), 1);
    forty_seconds_pass().await;
    assert_eq!(work_stream.decode(second).await.len(), 1, "the first had one mark");
    forty_seconds_pass().await;
    assert_eq!(work_stream.decode(third).await.len(), 0, "the second had two marks");
    assert_eq!(world.count("SELECT sum(unended) FROM message_failure").await, 2 + 3 + 2);
}
