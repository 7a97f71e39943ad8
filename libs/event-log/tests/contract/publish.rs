use std::time::Duration;

use event_log::{EventLog, Message, PublishError, Refusal, Settings};

use crate::world::{INBOX, SENDS, SOON, World, message, number, numbered, settings};

fn refusal(result: Result<event_log::PublishAck, PublishError>) -> Refusal {
    match result {
        Err(PublishError::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_repeated_id_is_answered_with_the_first_sequence() {
    let mut world = World::start().await;
    let first = world.log.publish(numbered(SENDS, 1)).await.unwrap();
    assert_eq!((first.seq, first.duplicate), (1, false));
    world.log.publish(numbered(SENDS, 2)).await.unwrap();
    let again = world.log.publish(numbered(SENDS, 1)).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (1, true));
    assert!(
        !world.log.publish(numbered(INBOX, 1)).await.unwrap().duplicate,
        "another stream has its own ids"
    );

    world.server.restart().await.unwrap();
    let log = EventLog::connect(settings(world.server.url())).await.unwrap();
    let after_crash = log.publish(numbered(SENDS, 1)).await.unwrap();
    assert_eq!((after_crash.seq, after_crash.duplicate), (1, true));
    assert_eq!(log.state(SENDS).await.unwrap().messages, 2);
}

#[tokio::test]
async fn without_an_id_every_message_is_stored() {
    let world = World::start().await;
    assert_eq!(world.log.publish(message(SENDS, "same")).await.unwrap().seq, 1);
    assert_eq!(world.log.publish(message(SENDS, "same")).await.unwrap().seq, 2);
}

#[tokio::test]
async fn a_full_stream_refuses_messages_and_keeps_the_stored_ones() {
    let world = World::empty().await;
    let small = Settings { max_messages: 3, ..settings(world.server.url()) };
    let log = EventLog::connect(small).await.unwrap();
    log.declare(&[SENDS]).await.unwrap();
    let results = log.publish_all((1..=5).map(|number| numbered(SENDS, number)).collect()).await;
    let outcomes: Vec<_> = results.into_iter().collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    for refused in outcomes.into_iter().skip(3) {
        assert_eq!(refusal(refused), Refusal::Full);
    }
    let records = log.reader(SENDS, 1).next_batch(3, SOON).await.unwrap();
    assert_eq!(records.iter().map(|record| number(&record.payload)).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(log.state(SENDS).await.unwrap().fill, 1.0);

    log.purge_below(SENDS, 2).await.unwrap();
    assert_eq!(log.publish(numbered(SENDS, 4)).await.unwrap().seq, 4, "the stream has room again");
}

#[tokio::test]
async fn a_message_that_can_never_be_stored_is_refused() {
    let world = World::start().await;
    let large =
        Message { stream: SENDS, id: Some("large".to_owned()), payload: vec![b'x'; 1024 * 1024].into() };
    assert_eq!(refusal(world.log.publish(large).await), Refusal::TooLarge);
    let fits =
        Message { stream: SENDS, id: Some("fits".to_owned()), payload: vec![b'x'; 1024 * 1024 - 64].into() };
    assert_eq!(world.log.publish(fits).await.unwrap().seq, 1);
    let undeclared = message(domain::StreamName::Outcome, "x");
    assert_eq!(refusal(world.log.publish(undeclared).await), Refusal::NoStream);
}

#[tokio::test]
async fn a_pipelined_batch_keeps_its_order() {
    let world = World::start().await;
    world.fill(SENDS, 3_000).await;
    let mut reader = world.log.reader(SENDS, 1);
    let mut expected = 1;
    while expected <= 3_000 {
        for record in reader.next_batch(500, Duration::from_millis(5)).await.unwrap() {
            assert_eq!((record.seq, number(&record.payload)), (expected, expected));
            expected += 1;
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_leaves_messages_unconfirmed() {
    let mut world = World::start().await;
    let impatient = Settings { ack_timeout: Duration::from_millis(500), ..settings(world.server.url()) };
    let log = EventLog::connect(impatient).await.unwrap();
    world.server.pause().unwrap();
    testkit::eventually(SOON, "the server has stopped", async || log.ping().await.err()).await;
    let lone = log.publish(numbered(SENDS, 1)).await;
    assert!(matches!(lone, Err(PublishError::Unconfirmed { .. })), "{lone:?}");
    let results = log.publish_all((1..=600).map(|number| numbered(SENDS, number)).collect()).await;
    let unconfirmed =
        results.iter().filter(|result| matches!(result, Err(PublishError::Unconfirmed { .. }))).count();
    assert_eq!(unconfirmed, 256, "only one window of messages is sent");
    for result in results.into_iter().skip(unconfirmed) {
        assert_eq!(refusal(result), Refusal::NotSent);
    }

    world.server.resume().unwrap();
    testkit::eventually(SOON, "the server answers a ping", async || log.ping().await.ok()).await;
    for result in world.log.publish_all((1..=600).map(|number| numbered(SENDS, number)).collect()).await {
        result.unwrap();
    }
    assert_eq!(log.state(SENDS).await.unwrap().messages, 600, "no message is stored twice");
}

#[tokio::test]
async fn a_failed_connection_is_reported_without_the_password() {
    let nobody = settings("nats://someone:secret@127.0.0.1:1");
    let Err(error) = EventLog::connect(nobody).await else { panic!("connected, although no server runs") };
    assert!(!error.to_string().contains("secret"), "{error}");
}
