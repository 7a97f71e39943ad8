//! Test in which the server is killed while processes publish, read and fetch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event_log::{ConsumerSettings, EventLog};
use testkit::eventually;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::world::{SENDS, World, number, numbered};

const MESSAGES: u64 = 60_000;
const KILLS_AT: [u64; 2] = [5_000, 20_000];
const LIMIT: Duration = Duration::from_secs(120);

/// Publishes each number again and again until it is confirmed, and the last ones only after `killed`. Returns the
/// sequences by number.
async fn publish(
    log: EventLog,
    confirmed: Arc<AtomicU64>,
    mut killed: oneshot::Receiver<()>,
) -> BTreeMap<u64, u64> {
    let mut seqs = BTreeMap::new();
    let numbers: Vec<u64> = (1..=MESSAGES).collect();
    for chunk in numbers.chunks(400) {
        if chunk.ends_with(&[MESSAGES]) {
            (&mut killed).await.unwrap();
        }
        let mut open = chunk.to_vec();
        while !open.is_empty() {
            let messages = open.iter().map(|&number| numbered(SENDS, number)).collect();
            let results = log.publish_all(messages).await;
            let mut still_open = Vec::new();
            for (number, result) in open.into_iter().zip(results) {
                match result {
                    Ok(appended) => assert_eq!(seqs.insert(number, appended.seq), None),
                    Err(_) => still_open.push(number),
                }
            }
            open = still_open;
            confirmed.store(seqs.len() as u64, Ordering::Relaxed);
        }
    }
    seqs
}

/// Reads until every number has arrived. Returns the numbers by sequence.
async fn read(log: EventLog) -> BTreeMap<u64, u64> {
    let mut reader = log.reader(SENDS, 1);
    let mut numbers = BTreeMap::new();
    while (numbers.len() as u64) < MESSAGES {
        match reader.next_batch(500, Duration::from_millis(5)).await {
            Ok(batch) => {
                for record in batch {
                    assert_eq!(
                        record.seq,
                        numbers.len() as u64 + 1,
                        "a record was repeated, skipped or out of order"
                    );
                    numbers.insert(record.seq, number(&record.payload));
                }
            }
            Err(error) => assert!(!error.is_permanent(), "{error}"),
        }
    }
    numbers
}

/// Fetches until every number was delivered. Returns the number of times that each was delivered.
async fn work(log: EventLog) -> BTreeMap<u64, u64> {
    let settings = ConsumerSettings { ack_wait: Duration::from_secs(5), max_ack_pending: 1_000 };
    let consumer = log.consumer(SENDS, "dispatcher", settings).await.unwrap();
    let mut times = BTreeMap::new();
    while (times.len() as u64) < MESSAGES {
        match consumer.fetch(200, Duration::from_secs(10)).await {
            Ok(batch) => {
                for delivered in batch {
                    *times.entry(number(&delivered.payload)).or_default() += 1;
                    delivered.ack().await.unwrap();
                }
            }
            Err(error) => assert!(!error.is_permanent(), "{error}"),
        }
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_confirmed_is_lost_when_the_server_is_killed() {
    let mut world = World::start().await;
    let confirmed = Arc::new(AtomicU64::new(0));
    let (all_kills, killed) = oneshot::channel();
    let publisher = tokio::spawn(publish(world.log.clone(), confirmed.clone(), killed));
    let reader = tokio::spawn(read(world.log.clone()));
    let worker = tokio::spawn(work(world.log.clone()));
    for kill_at in KILLS_AT {
        eventually(LIMIT, "the publisher makes progress", async || {
            (confirmed.load(Ordering::Relaxed) >= kill_at).then_some(())
        })
        .await;
        assert!(
            confirmed.load(Ordering::Relaxed) < MESSAGES,
            "the server was killed too late to have an effect"
        );
        world.server.kill();
        world.server.restart().await.unwrap();
    }
    all_kills.send(()).unwrap();
    let seqs = timeout(LIMIT, publisher).await.expect("the publisher does not finish").unwrap();
    let numbers = timeout(LIMIT, reader).await.expect("the reader does not finish").unwrap();
    let times = timeout(LIMIT, worker).await.expect("the worker does not finish").unwrap();

    assert_eq!(world.log.state(SENDS).await.unwrap().messages, MESSAGES, "a message was stored twice");
    for (number, seq) in &seqs {
        assert_eq!(numbers.get(seq), Some(number), "confirmed at {seq}, but not read there");
    }
    let extra = times.values().sum::<u64>() - MESSAGES;
    println!("{MESSAGES} confirmed, read once, delivered; {extra} delivered again; {} kills", KILLS_AT.len());
}
