use event_log::{DeclareError, EventLog, ResizedStream, Settings, StreamSize};
use futures_util::future::join_all;

use crate::world::{INBOX, SENDS, World, message, settings};

const LIMIT: i64 = 100_000;

fn messages(limit: i64) -> StreamSize {
    StreamSize { max_messages: Some(limit), replicas: None }
}

#[tokio::test]
async fn processes_with_another_size_use_the_existing_streams() {
    let world = World::start().await;
    let before = world.log.declare(&[SENDS, INBOX]).await.unwrap();
    let sizes = [(1_000, 1), (200_000, 1), (100_000, 3)];
    let declared = join_all(sizes.map(async |(max_messages, replicas)| {
        let configured = Settings { max_messages, replicas, ..settings(world.server.url()) };
        EventLog::connect(configured).await.unwrap().declare(&[SENDS, INBOX]).await.unwrap()
    }));
    assert!(declared.await.iter().all(|declared| *declared == before));
    let raw = world.raw().await;
    for name in [SENDS, INBOX] {
        let found = raw.get_stream(name.to_string()).await.unwrap().cached_info().config.clone();
        assert_eq!((found.max_messages, found.num_replicas), (LIMIT, 1), "{name}");
    }
}

#[tokio::test]
async fn a_stream_that_is_resized_keeps_everything_else() {
    let world = World::start().await;
    world.fill(INBOX, 600).await;
    let before = world.log.declare(&[SENDS, INBOX]).await.unwrap();
    let grown = world.log.resize(&[SENDS, INBOX], messages(200_000)).await.unwrap();
    let resized = |stream| ResizedStream { stream, max_messages: (LIMIT, 200_000), replicas: (1, 1) };
    assert_eq!(grown, [resized(SENDS), resized(INBOX)]);
    assert_eq!(world.log.declare(&[SENDS, INBOX]).await.unwrap(), before);
    let state = world.log.state(INBOX).await.unwrap();
    assert_eq!((state.messages, state.fill), (600, 0.003));

    for nothing_new in [messages(200_000), StreamSize { replicas: Some(1), ..messages(200_000) }] {
        assert_eq!(world.log.resize(&[SENDS, INBOX], nothing_new).await.unwrap(), []);
    }
    assert_eq!(world.log.resize(&[SENDS, INBOX], StreamSize::default()).await.unwrap(), []);
    assert_eq!(world.log.publish(message(INBOX, "601")).await.unwrap().seq, 601);
}

#[tokio::test]
async fn a_limit_that_leaves_too_little_room_is_refused_before_any_stream_is_changed() {
    let world = World::start().await;
    world.fill(INBOX, 600).await;
    let error = world.log.resize(&[SENDS, INBOX], messages(1_199)).await.unwrap_err();
    let cause = error.to_string();
    assert!(matches!(error, DeclareError::TooSmall { held: 600, limit: 1_199, least: 1_200, .. }), "{cause}");
    assert!(cause.contains("INBOX_0"), "{cause}");
    assert_eq!(
        world.log.resize(&[SENDS], messages(LIMIT)).await.unwrap(),
        [],
        "the first stream is unchanged"
    );

    assert_eq!(world.log.resize(&[SENDS, INBOX], messages(1_200)).await.unwrap().len(), 2);
    let state = world.log.state(INBOX).await.unwrap();
    assert_eq!((state.messages, state.first_seq, state.fill), (600, 1, 0.5));
}

#[tokio::test]
async fn messages_published_during_a_resize_are_kept() {
    let world = World::start().await;
    let publishing = async {
        for _ in 0..20 {
            let messages = (0..50).map(|_| message(INBOX, "x")).collect();
            assert!(world.log.publish_all(messages).await.iter().all(Result::is_ok));
        }
    };
    let resizing = async {
        for limit in [200_000, 4_000, 50_000, 8_000] {
            assert_eq!(world.log.resize(&[INBOX], messages(limit)).await.unwrap().len(), 1);
        }
    };
    tokio::join!(publishing, resizing);
    let state = world.log.state(INBOX).await.unwrap();
    assert_eq!((state.messages, state.first_seq, state.last_seq), (1_000, 1, 1_000));
}

#[tokio::test]
async fn replicas_that_the_server_cannot_provide_leave_the_stream_unchanged() {
    let world = World::start().await;
    let size = StreamSize { max_messages: None, replicas: Some(3) };
    let error = world.log.resize(&[SENDS], size).await.unwrap_err();
    assert!(matches!(error, DeclareError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("SEND_transactional"), "{error}");
    assert_eq!(world.log.resize(&[SENDS], StreamSize { replicas: Some(1), ..size }).await.unwrap(), []);
}
