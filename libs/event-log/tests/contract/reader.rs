use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use domain::StreamName;
use event_log::{Error, Message, Reader, Record};
use futures_util::TryStreamExt;
use testkit::eventually;

use crate::world::{INBOX, SOON, World, message, number};

const LINGER: Duration = Duration::from_millis(5);

/// Reads `count` records. Retries after temporary errors.
async fn read(reader: &mut Reader, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    eventually(SOON, "all records", async || {
        match reader.next_batch(count - records.len(), LINGER).await {
            Ok(batch) => records.extend(batch),
            Err(error) => assert!(!error.is_permanent(), "{error}"),
        }
        (records.len() == count).then_some(())
    })
    .await;
    records
}

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

/// Finds the only consumer that a reader has on the server.
async fn consumer_of_reader(
    world: &World,
    stream: StreamName,
) -> (async_nats::jetstream::stream::Stream, String) {
    let stream = world.raw().await.get_stream(stream.to_string()).await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    assert_eq!(names.len(), 1);
    (stream, names[0].clone())
}

#[tokio::test]
async fn reading_starts_at_any_sequence_and_continues_with_new_records() {
    let world = World::start().await;
    world.fill(INBOX, 1_500).await;
    let mut reader = world.log.reader(INBOX, 401);
    let old = read(&mut reader, 1_100).await;
    assert_eq!(seqs(&old), (401..=1_500).collect::<Vec<_>>());
    assert!(old.iter().all(|record| number(&record.payload) == record.seq));
    assert!(old[0].published_at > 1_700_000_000_000);

    assert!(reader.next_batch(10, LINGER).await.unwrap().is_empty());
    world.log.publish(message(INBOX, "new")).await.unwrap();
    let new = read(&mut reader, 1).await;
    assert_eq!((new[0].seq, new[0].payload.as_ref()), (1_501, b"new".as_slice()));
}

#[tokio::test]
async fn a_batch_never_exceeds_its_limit() {
    let world = World::start().await;
    world.fill(INBOX, 30).await;
    let mut reader = world.log.reader(INBOX, 0);
    assert_eq!(seqs(&reader.next_batch(10, SOON).await.unwrap()), (1..=10).collect::<Vec<_>>());
    assert_eq!(seqs(&reader.next_batch(20, SOON).await.unwrap()), (11..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn large_records_are_read_in_order() {
    let world = World::start().await;
    for _ in 0..25 {
        let large = Message { stream: INBOX, id: None, payload: vec![b'x'; 900 * 1024].into() };
        world.log.publish(large).await.unwrap();
    }
    let records = read(&mut world.log.reader(INBOX, 1), 25).await;
    assert_eq!(seqs(&records), (1..=25).collect::<Vec<_>>());
}

#[tokio::test]
async fn dropping_a_read_loses_no_record() {
    let world = World::start().await;
    let mut reader = world.log.reader(INBOX, 1);
    let mut records = Vec::new();
    for seq in 1..=200 {
        world.log.publish(message(INBOX, &seq.to_string())).await.unwrap();
        // Drop a call that would collect records for a long time, soon after it has started.
        if let Ok(batch) =
            tokio::time::timeout(Duration::from_millis(3), reader.next_batch(1_000, SOON)).await
        {
            records.extend(batch.unwrap());
        }
    }
    let missing = 200 - records.len();
    records.extend(read(&mut reader, missing).await);
    assert_eq!(seqs(&records), (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reader_that_starts_at_a_purged_record_fails() {
    let world = World::start().await;
    world.fill(INBOX, 100).await;
    world.log.purge_below(INBOX, 51).await.unwrap();
    let mut behind = world.log.reader(INBOX, 10);
    for _ in 0..2 {
        let error = behind.next_batch(10, LINGER).await.unwrap_err();
        assert!(matches!(error, Error::Purged { wanted: 10, first: 51, .. }), "{error}");
        assert!(error.is_permanent());
    }
    assert_eq!(read(&mut world.log.reader(INBOX, 51), 50).await.len(), 50);
}

#[tokio::test]
async fn a_reader_whose_next_record_is_purged_fails() {
    let world = World::start().await;
    world.fill(INBOX, 2_500).await;
    let mut reader = world.log.reader(INBOX, 1);
    let mut last = reader.next_batch(100, SOON).await.unwrap().last().unwrap().seq;
    world.log.purge_below(INBOX, 2_400).await.unwrap();
    let error = loop {
        match reader.next_batch(100, LINGER).await {
            Ok(batch) => {
                for record in batch {
                    assert_eq!(record.seq, last + 1, "the reader returned a gap");
                    last = record.seq;
                }
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Purged { wanted, first: 2_400, .. } if wanted == last + 1), "{error}");
}

#[tokio::test]
async fn a_reader_fails_at_a_record_missing_in_the_middle() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    let raw = world.raw().await.get_stream(INBOX.to_string()).await.unwrap();
    raw.delete_message(5).await.unwrap();
    let mut reader = world.log.reader(INBOX, 1);
    assert_eq!(seqs(&read(&mut reader, 4).await), [1, 2, 3, 4]);
    let error = reader.next_batch(10, LINGER).await.unwrap_err();
    assert!(matches!(error, Error::Purged { wanted: 5, first: 6, .. }), "{error}");
}

#[tokio::test]
async fn a_stream_that_ends_below_the_reader_is_refused() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    assert!(world.log.reader(INBOX, 11).next_batch(1, LINGER).await.unwrap().is_empty());
    let error = world.log.reader(INBOX, 12).next_batch(1, LINGER).await.unwrap_err();
    assert!(matches!(error, Error::Rewound { read: 11, last: 10, .. }), "{error}");
}

#[tokio::test]
async fn a_recreated_stream_is_not_mistaken_for_the_old_one() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    let mut reader = world.log.reader(INBOX, 1);
    read(&mut reader, 10).await;
    world.raw().await.delete_stream(INBOX.to_string()).await.unwrap();
    world.log.declare(&[INBOX]).await.unwrap();
    for _ in 0..20 {
        world.log.publish(message(INBOX, "other")).await.unwrap();
    }
    let error = eventually(SOON, "the reader notices", async || {
        match reader.next_batch(10, LINGER).await {
            Ok(batch) => assert!(batch.is_empty(), "the reader returned records of the new stream"),
            Err(error) if error.is_permanent() => return Some(error),
            Err(_) => {}
        }
        None
    });
    assert!(matches!(error.await, Error::Replaced { .. }));
}

#[tokio::test]
async fn a_deleted_consumer_is_replaced() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    let mut reader = world.log.reader(INBOX, 1);
    read(&mut reader, 10).await;
    let (raw, name) = consumer_of_reader(&world, INBOX).await;
    raw.delete_consumer(&name).await.unwrap();
    for _ in 0..10 {
        world.log.publish(message(INBOX, "more")).await.unwrap();
    }
    assert_eq!(seqs(&read(&mut reader, 10).await), (11..=20).collect::<Vec<_>>());
}

/// A consumer that lost its position answers every request but delivers nothing, although the stream grows. The test simulates
/// such a consumer with a filter that matches no message.
#[tokio::test]
async fn a_stalled_consumer_is_replaced() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    let mut reader = world.log.reader(INBOX, 1);
    read(&mut reader, 10).await;
    let (raw, name) = consumer_of_reader(&world, INBOX).await;
    let mut stream_config = raw.cached_info().config.clone();
    stream_config.subjects.push("nothing".to_owned());
    world.raw().await.update_stream(&stream_config).await.unwrap();
    let config = raw.consumer_info(&name).await.unwrap().config;
    let stuck = pull::Config {
        name: Some(name.clone()),
        deliver_policy: config.deliver_policy,
        ack_policy: config.ack_policy,
        inactive_threshold: config.inactive_threshold,
        memory_storage: config.memory_storage,
        num_replicas: config.num_replicas,
        max_deliver: config.max_deliver,
        max_waiting: config.max_waiting,
        filter_subject: "nothing".to_owned(),
        ..pull::Config::default()
    };
    raw.create_consumer(stuck).await.unwrap();
    assert_eq!(raw.consumer_info(&name).await.unwrap().config.filter_subject, "nothing");
    for _ in 0..10 {
        world.log.publish(message(INBOX, "more")).await.unwrap();
    }
    assert_eq!(seqs(&read(&mut reader, 10).await), (11..=20).collect::<Vec<_>>());
}
