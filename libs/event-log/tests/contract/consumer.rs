use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use event_log::{Consumer, ConsumerSettings, DeliveredMessage, Error, EventLog, Message};
use testkit::eventually;
use tokio::sync::Barrier;

use crate::world::{SENDS, SOON, World, message, number, settings};

const DURABLE: &str = "dispatcher";
const AT_ONCE: Duration = Duration::from_millis(50);
const SHORT: ConsumerSettings = ConsumerSettings { ack_wait: Duration::from_secs(1), max_ack_pending: 100 };
const LONG: ConsumerSettings = ConsumerSettings { ack_wait: Duration::from_secs(60), max_ack_pending: 1_000 };

async fn next(consumer: &Consumer) -> DeliveredMessage {
    eventually(SOON, "a delivery", async || consumer.fetch(1, AT_ONCE).await.unwrap().pop()).await
}

#[tokio::test]
async fn a_consumer_delivers_in_order_and_reports_its_progress() {
    let world = World::start().await;
    world.fill(SENDS, 10).await;
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    let batch = consumer.fetch(4, SOON).await.unwrap();
    assert_eq!(batch.iter().map(|delivered| delivered.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(
        batch.iter().all(|delivered| delivered.deliveries == 1 && delivered.published_at > 1_700_000_000_000)
    );
    let progress = consumer.progress().await.unwrap();
    assert_eq!(
        (progress.ack_floor, progress.pending, progress.ack_pending, progress.redelivered),
        (0, 6, 4, 0)
    );

    batch[0].ack().await.unwrap();
    batch[1].ack().await.unwrap();
    batch[3].ack().await.unwrap();
    let progress = eventually(SOON, "three acknowledgements", async || {
        let progress = consumer.progress().await.unwrap();
        (progress.ack_pending == 1).then_some(progress)
    });
    assert_eq!(progress.await.ack_floor, 2);

    let rest = consumer.fetch(100, SOON).await.unwrap();
    assert_eq!(
        rest.iter().map(|delivered| number(&delivered.payload)).collect::<Vec<_>>(),
        [5, 6, 7, 8, 9, 10]
    );
    assert!(consumer.fetch(100, AT_ONCE).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_fetch_that_waits_returns_with_the_first_message() {
    let world = World::start().await;
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    let waiting = tokio::spawn(async move { consumer.fetch(100, Duration::from_secs(3600)).await.unwrap() });
    let raw = world.raw().await.get_stream(SENDS.to_string()).await.unwrap();
    eventually(SOON, "the fetch has reached the server", async || {
        (raw.consumer_info(DURABLE).await.unwrap().num_waiting == 1).then_some(())
    })
    .await;
    world.fill(SENDS, 1).await;
    let batch = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(batch.len(), 1);
}

#[tokio::test]
async fn an_unacknowledged_message_is_delivered_again() {
    let world = World::start().await;
    world.fill(SENDS, 1).await;
    let consumer = world.log.consumer(SENDS, DURABLE, SHORT).await.unwrap();
    assert_eq!(next(&consumer).await.deliveries, 1);
    let second = next(&consumer).await;
    assert_eq!((second.seq, second.deliveries), (1, 2));
    let progress = consumer.progress().await.unwrap();
    assert_eq!((progress.redelivered, progress.ack_pending), (1, 1));
    second.ack().await.unwrap();
    eventually(SOON, "the acknowledgement", async || {
        (consumer.progress().await.unwrap().ack_floor == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn work_in_progress_is_not_delivered_to_another_process() {
    let world = World::start().await;
    world.fill(SENDS, 1).await;
    let three_seconds = ConsumerSettings { ack_wait: Duration::from_secs(3), ..SHORT };
    let consumer = world.log.consumer(SENDS, DURABLE, three_seconds).await.unwrap();
    let mine = next(&consumer).await;
    // For four seconds, another process fetches while the holder of the message reports progress every 50 ms.
    for _ in 0..80 {
        mine.in_progress().await.unwrap();
        assert!(consumer.fetch(1, AT_ONCE).await.unwrap().is_empty());
    }
    assert_eq!(next(&consumer).await.deliveries, 2);
}

#[tokio::test]
async fn a_returned_message_is_delivered_again_after_the_delay() {
    let world = World::start().await;
    world.fill(SENDS, 1).await;
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    next(&consumer).await.nak(None).await.unwrap();
    let again = next(&consumer).await;
    assert_eq!((again.seq, again.deliveries), (1, 2));

    world.log.publish(message(SENDS, "other")).await.unwrap();
    again.nak(Some(Duration::from_secs(2))).await.unwrap();
    let delayed_at = std::time::Instant::now();
    assert_eq!(next(&consumer).await.seq, 2, "the delay does not hold up other messages");
    let third = next(&consumer).await;
    assert_eq!((third.seq, third.deliveries), (1, 3));
    assert!(delayed_at.elapsed() >= Duration::from_millis(1_900), "the message came before its delay");
}

#[tokio::test]
async fn two_processes_share_the_work_without_overlap() {
    const MESSAGES: u64 = 2_000;
    let world = World::start().await;
    world.fill(SENDS, MESSAGES).await;
    let left = Arc::new(AtomicU64::new(MESSAGES));
    let both_hold_some = Arc::new(Barrier::new(2));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let log = EventLog::connect(settings(world.server.url())).await.unwrap();
        let (left, both_hold_some) = (left.clone(), both_hold_some.clone());
        workers.spawn(async move {
            let consumer = log.consumer(SENDS, DURABLE, LONG).await.unwrap();
            let mut batch = consumer.fetch(50, SOON).await.unwrap();
            both_hold_some.wait().await;
            let mut mine = Vec::new();
            while left.load(Relaxed) > 0 {
                for delivered in batch {
                    mine.push(delivered.seq);
                    delivered.ack().await.unwrap();
                    left.fetch_sub(1, Relaxed);
                }
                batch = consumer.fetch(50, Duration::from_millis(500)).await.unwrap();
            }
            mine
        });
    }
    let shares = tokio::time::timeout(SOON * 3, workers.join_all()).await.unwrap();
    assert!(shares.iter().all(|share| !share.is_empty()), "a process got no messages");
    let all: Vec<u64> = shares.into_iter().flatten().collect();
    assert_eq!(all.len() as u64, MESSAGES);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), (1..=MESSAGES).collect());
}

#[tokio::test]
async fn a_fetch_waits_while_too_much_is_unacknowledged() {
    let world = World::start().await;
    world.fill(SENDS, 5).await;
    let narrow = ConsumerSettings { max_ack_pending: 2, ..LONG };
    let consumer = world.log.consumer(SENDS, DURABLE, narrow).await.unwrap();
    let held = consumer.fetch(10, SOON).await.unwrap();
    assert_eq!(held.len(), 2);
    assert!(consumer.fetch(10, AT_ONCE).await.unwrap().is_empty());
    let (more, acked) = tokio::join!(consumer.fetch(10, SOON), held[0].ack());
    acked.unwrap();
    assert_eq!(more.unwrap().first().unwrap().seq, 3);
}

#[tokio::test]
async fn a_fetch_does_not_wait_for_expiry_while_too_much_is_unacknowledged() {
    const MESSAGES: u64 = 600;
    let world = World::start().await;
    world.fill(SENDS, MESSAGES).await;
    let tight = ConsumerSettings { max_ack_pending: 20, ..LONG };
    let left = Arc::new(AtomicU64::new(MESSAGES));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let log = EventLog::connect(settings(world.server.url())).await.unwrap();
        let left = left.clone();
        workers.spawn(async move {
            let consumer = log.consumer(SENDS, DURABLE, tight).await.unwrap();
            let mut acks = tokio::task::JoinSet::new();
            while left.load(Relaxed) > 0 {
                for delivered in consumer.fetch(50, Duration::from_millis(200)).await.unwrap() {
                    assert_eq!(delivered.deliveries, 1);
                    left.fetch_sub(1, Relaxed);
                    // Acknowledge concurrently with the next fetch, so that `max_ack_pending` allows further messages while that
                    // fetch waits.
                    acks.spawn(async move { delivered.ack().await.unwrap() });
                }
            }
            acks.join_all().await;
        });
    }
    tokio::time::timeout(SOON, workers.join_all()).await.unwrap();
}

#[tokio::test]
async fn messages_after_the_last_fetch_can_be_released() {
    let world = World::start().await;
    world.fill(SENDS, 2).await;
    let one_at_once = ConsumerSettings { max_ack_pending: 1, ..LONG };
    let leaving = world.log.consumer(SENDS, DURABLE, one_at_once).await.unwrap();
    let batch = leaving.fetch(2, SOON).await.unwrap();
    assert_eq!(batch.len(), 1, "the request for the second message stays open");
    batch[0].ack().await.unwrap();
    leaving.release().await.unwrap();
    let staying = world.log.consumer(SENDS, DURABLE, one_at_once).await.unwrap();
    assert_eq!(next(&staying).await.seq, 2);
}

#[tokio::test]
async fn large_messages_arrive_in_several_fetches() {
    let world = World::start().await;
    for _ in 0..20 {
        let large = Message { stream: SENDS, id: None, payload: vec![b'x'; 900 * 1024].into() };
        world.log.publish(large).await.unwrap();
    }
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    let mut seen = 0;
    while seen < 20 {
        let batch = consumer.fetch(100, SOON).await.unwrap();
        assert!((1..=9).contains(&batch.len()), "{} messages in one fetch", batch.len());
        seen += batch.len();
    }
    assert_eq!(seen, 20);
}

#[tokio::test]
async fn a_consumer_keeps_its_position_and_may_change_its_limits() {
    let world = World::start().await;
    world.fill(SENDS, 3).await;
    let consumer = world.log.consumer(SENDS, DURABLE, SHORT).await.unwrap();
    next(&consumer).await.ack().await.unwrap();
    let again = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    assert_eq!(next(&again).await.seq, 2);
    let raw = world.raw().await.get_stream(SENDS.to_string()).await.unwrap();
    let config = raw.consumer_info(DURABLE).await.unwrap().config;
    assert_eq!((config.ack_wait, config.max_ack_pending), (LONG.ack_wait, LONG.max_ack_pending));
}

#[tokio::test]
async fn a_consumer_that_would_deliver_other_messages_is_refused() {
    let world = World::start().await;
    let raw = world.raw().await.get_stream(SENDS.to_string()).await.unwrap();
    let limited =
        pull::Config { durable_name: Some(DURABLE.to_owned()), max_deliver: 3, ..pull::Config::default() };
    raw.create_consumer(limited).await.unwrap();
    let Err(error) = world.log.consumer(SENDS, DURABLE, LONG).await else { panic!("accepted") };
    assert!(matches!(&error, Error::ConsumerDiffers { field: "max_deliver", .. }), "{error}");
    assert!(error.is_permanent());
    assert_eq!(raw.consumer_info(DURABLE).await.unwrap().config.max_deliver, 3, "the consumer is unchanged");
}

#[tokio::test]
async fn fetching_from_a_lost_consumer_is_an_error() {
    let world = World::start().await;
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    let raw = world.raw().await.get_stream(SENDS.to_string()).await.unwrap();
    raw.delete_consumer(DURABLE).await.unwrap();
    let Err(error) = consumer.fetch(1, SOON).await else { panic!("the fetch succeeded") };
    assert!(error.to_string().contains("consumer dispatcher of SEND_transactional"), "{error}");
}

/// nats-server 2.9.10 silently forgets a request if a message arrives at the moment when the request expires.
#[tokio::test]
async fn a_fetch_that_the_server_forgets_loses_no_message_and_causes_no_error() {
    const MESSAGES: u64 = 700;
    let world = World::start().await;
    let consumer = world.log.consumer(SENDS, DURABLE, LONG).await.unwrap();
    let log = world.log.clone();
    let trickle = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(12));
        for n in 1..=MESSAGES {
            pace.tick().await;
            log.publish(message(SENDS, &n.to_string())).await.unwrap();
        }
    });
    let mut delivered = 0;
    while delivered < MESSAGES {
        for message in consumer.fetch(200, Duration::from_millis(11)).await.unwrap() {
            assert_eq!(message.deliveries, 1);
            message.ack().await.unwrap();
            delivered += 1;
        }
    }
    trickle.await.unwrap();
}
