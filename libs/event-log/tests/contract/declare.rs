use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use domain::StreamName;
use event_log::{DeclareError, EventLog, Settings};
use futures_util::future::join_all;

use crate::world::{INBOX, SENDS, World, message, settings};

#[tokio::test]
async fn declaring_twice_changes_nothing() {
    let world = World::empty().await;
    let names = StreamName::all(2);
    let first = world.log.declare(&names).await.unwrap();
    assert_eq!(first.iter().map(|identity| identity.name).collect::<Vec<_>>(), names);
    assert!(first.iter().all(|identity| identity.last_seq == 0 && identity.created_at > 1_700_000_000_000));

    world.log.publish(message(INBOX, "one")).await.unwrap();
    let second = world.log.declare(&names).await.unwrap();
    for (before, after) in first.iter().zip(&second) {
        assert_eq!(before.created_at, after.created_at);
        assert_eq!(after.last_seq, u64::from(after.name == INBOX));
    }
}

#[tokio::test]
async fn processes_that_start_together_declare_the_same_streams() {
    let world = World::empty().await;
    let others = join_all((0..7).map(|_| EventLog::connect(settings(world.server.url())))).await;
    let raw = world.raw().await;
    let names = StreamName::all(4);
    // Repeat the race, because the server's answers to the slower processes depend on the timing.
    for round in 0..20 {
        let first = world.log.declare(&names);
        let rest = join_all(others.iter().map(|other| other.as_ref().unwrap().declare(&names)));
        let (first, rest) = tokio::join!(first, rest);
        let first = first.unwrap();
        for identities in rest {
            assert_eq!(identities.unwrap(), first, "round {round}");
        }
        for name in &names {
            raw.delete_stream(name.to_string()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn subjects_of_another_stream_are_named() {
    let world = World::empty().await;
    let foreign =
        Config { name: "foreign".to_owned(), subjects: vec![SENDS.to_string()], ..Config::default() };
    world.raw().await.create_stream(foreign).await.unwrap();
    let error = world.log.declare(&[SENDS]).await.unwrap_err().to_string();
    assert!(error.contains("SEND_transactional") && error.contains("overlap"), "{error}");
}

/// A field, its declared value, the value in the altered stream, and the function that alters the configuration of the stream.
type Case = (&'static str, &'static str, &'static str, fn(Config) -> Config);

const ALTERED: [Case; 5] = [
    ("discard", "New", "Old", |config| Config { discard: DiscardPolicy::Old, ..config }),
    ("max_msgs", "100000", "-1", |config| Config { max_messages: -1, ..config }),
    ("max_age", "0ns", "3600s", |config| Config { max_age: Duration::from_secs(3600), ..config }),
    ("duplicate_window", "600s", "120s", |config| Config {
        duplicate_window: Duration::from_secs(120),
        ..config
    }),
    ("subjects", r#"["SEND_transactional"]"#, r#"["other"]"#, |config| Config {
        subjects: vec!["other".to_owned()],
        ..config
    }),
];

#[tokio::test]
async fn a_stream_that_differs_is_refused_and_left_alone() {
    for (wrong, right, found_value, alter) in ALTERED {
        let world = World::start().await;
        let raw = world.raw().await;
        let config = raw.get_stream(SENDS.to_string()).await.unwrap().cached_info().config.clone();
        raw.delete_stream(SENDS.to_string()).await.unwrap();
        let config = alter(config);
        raw.create_stream(&config).await.unwrap();

        let error = world.log.declare(&[INBOX, SENDS]).await.unwrap_err();
        let DeclareError::Differs { stream, field, wanted, found } = error else {
            panic!("{wrong}: {error}");
        };
        assert_eq!(
            (stream.as_str(), field, wanted.as_str(), found.as_str()),
            ("SEND_transactional", wrong, right, found_value)
        );
        let after = raw.get_stream(SENDS.to_string()).await.unwrap();
        assert_eq!(after.cached_info().config.subjects, config.subjects);
        assert_eq!(after.cached_info().config.max_messages, config.max_messages);
    }
}

#[tokio::test]
async fn replicas_that_the_server_cannot_provide_are_an_error() {
    let world = World::empty().await;
    let three = Settings { replicas: 3, ..settings(world.server.url()) };
    let log = EventLog::connect(three).await.unwrap();
    let error = log.declare(&[SENDS]).await.unwrap_err();
    assert!(error.to_string().contains("SEND_transactional"), "{error}");
}

#[tokio::test]
async fn the_state_reports_how_full_a_stream_is() {
    let world = World::empty().await;
    let small = Settings { max_messages: 8, ..settings(world.server.url()) };
    let log = EventLog::connect(small).await.unwrap();
    log.declare(&[INBOX]).await.unwrap();
    assert_eq!(log.state(INBOX).await.unwrap().fill, 0.0);
    for _ in 0..6 {
        log.publish(message(INBOX, "x")).await.unwrap();
    }
    let state = log.state(INBOX).await.unwrap();
    assert_eq!((state.messages, state.first_seq, state.last_seq, state.fill), (6, 1, 6, 0.75));
    assert!(state.bytes > 0);
    assert!(log.state(SENDS).await.unwrap_err().to_string().contains("the stream does not exist"));
}

#[tokio::test]
async fn purging_removes_only_messages_below_the_sequence() {
    let world = World::start().await;
    world.fill(INBOX, 10).await;
    for (below, purged, first) in
        [(0, 0, 1), (1, 0, 1), (4, 3, 4), (4, 0, 4), (10, 6, 10), (5_000, 1, 11), (5_000, 0, 11)]
    {
        assert_eq!(world.log.purge_below(INBOX, below).await.unwrap(), purged, "below {below}");
        let state = world.log.state(INBOX).await.unwrap();
        assert_eq!((state.first_seq, state.last_seq), (first, 10), "below {below}");
    }
    assert_eq!(world.log.publish(message(INBOX, "eleven")).await.unwrap().seq, 11);
}

#[tokio::test]
async fn an_emptied_stream_keeps_its_sequences_and_identity_through_a_crash() {
    let mut world = World::start().await;
    world.fill(INBOX, 10).await;
    world.log.purge_below(INBOX, 11).await.unwrap();
    let before = world.log.declare(&[INBOX]).await.unwrap();
    world.server.restart().await.unwrap();
    let log = EventLog::connect(settings(world.server.url())).await.unwrap();
    assert_eq!(log.declare(&[INBOX]).await.unwrap(), before);
    assert_eq!(log.publish(message(INBOX, "eleven")).await.unwrap().seq, 11);
}
