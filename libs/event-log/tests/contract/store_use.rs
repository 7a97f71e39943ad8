use domain::StreamName;
use event_log::{EventLog, Message, PublishError, Refusal};
use local_servers::NatsServer;

use crate::world::{INBOX, SENDS, settings};

const STORE: u64 = 200_000_000;
const STREAMS: [StreamName; 3] = [SENDS, INBOX, StreamName::Outcome];

async fn small() -> (NatsServer, EventLog) {
    let server = NatsServer::start_with(&format!("jetstream {{ max_file_store: {STORE} }}\n")).await.unwrap();
    let log = EventLog::connect(settings(server.url())).await.unwrap();
    log.declare(&STREAMS).await.unwrap();
    (server, log)
}

fn large(stream: StreamName) -> Message {
    Message { stream, id: None, payload: vec![b'x'; 1_000_000].into() }
}

#[tokio::test]
async fn the_size_of_the_servers_store_is_found_although_the_server_does_not_publish_it() {
    let (_server, log) = small().await;
    let found = log.storable(&STREAMS).await.unwrap().unwrap();
    assert!((STORE - STORE / 100..=STORE).contains(&found), "{found}");
    // The call leaves nothing behind, so it can be repeated, also while the streams hold messages.
    log.publish(large(SENDS)).await.unwrap();
    assert_eq!(log.storable(&STREAMS).await.unwrap(), Some(found));
}

#[tokio::test]
async fn a_stream_that_an_operator_limits_by_bytes_is_accepted_and_is_as_full_as_its_bytes() {
    let (server, log) = small().await;
    let whole = log.storable(&STREAMS).await.unwrap().unwrap();
    let raw = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let mut config = raw.get_stream(SENDS.to_string()).await.unwrap().cached_info().config.clone();
    config.max_bytes = 20_000_000;
    raw.update_stream(&config).await.unwrap();
    log.declare(&STREAMS).await.unwrap();
    let with_limit = log.storable(&STREAMS).await.unwrap().unwrap();
    assert!(whole.abs_diff(with_limit) <= whole / 50, "{whole} {with_limit}");

    for _ in 0..10 {
        log.publish(large(SENDS)).await.unwrap();
    }
    let fill = log.state(SENDS).await.unwrap().fill;
    assert!((0.5..0.55).contains(&fill), "{fill}");
    for _ in 0..9 {
        log.publish(large(SENDS)).await.unwrap();
    }
    let refused = log.publish(large(SENDS)).await.unwrap_err();
    assert!(matches!(refused, PublishError::Refused { refusal: Refusal::Full, .. }), "{refused}");
    assert_eq!(raw.get_stream(SENDS.to_string()).await.unwrap().cached_info().config.max_bytes, 20_000_000);
}

#[tokio::test]
async fn the_use_of_the_store_counts_the_bytes_of_all_streams() {
    let (_server, log) = small().await;
    assert_eq!(log.store_use().await.unwrap().limit, None);
    log.limit_store(40_000_000);
    for stream in [SENDS, INBOX] {
        for _ in 0..5 {
            log.publish(large(stream)).await.unwrap();
        }
    }
    let used = log.clone().store_use().await.unwrap();
    assert_eq!(used.limit, Some(40_000_000));
    assert!((0.25..0.26).contains(&used.fill()), "{used:?}");
    log.purge_below(SENDS, 6).await.unwrap();
    assert!(log.store_use().await.unwrap().used < 6_000_000);
}
