//! Messages that fail because of their own content.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use domain::event::{SendContinues, bundle};
use domain::{Envelope, Event, Lane, StreamName};
use event_log::ConsumerSettings;
use service_kit::clock;
use testkit::eventually;

use crate::world::{SOON, World, accepted, person, send_number, send_to};

const SENDS: StreamName = StreamName::Send(Lane::Transactional);

#[tokio::test]
async fn a_send_that_the_database_rejects_is_parked_and_other_sends_are_planned() {
    let world = World::with(|_| {}).await;
    let mut poison = send_to(vec![person("eve")]);
    poison.content.title = Some("a\0b".to_owned());
    world.accept(&send_to(vec![person("ada")])).await;
    let poisoned = world.accept(&poison).await;
    world.accept(&send_to(vec![person("bob")])).await;
    world.publish(SENDS, b"{".to_vec()).await;
    world.serve();
    world.dispatched(Lane::Transactional, 4).await;
    assert_eq!(world.inboxes().await.len(), 2);
    let parked: Vec<(Option<uuid::Uuid>, String)> =
        sqlx::query_as("SELECT send_id, stream FROM parked ORDER BY send_id")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    let stream = SENDS.to_string();
    assert_eq!(parked, [(Some(poisoned.0), stream.clone()), (None, stream)]);
    assert_eq!(world.count("SELECT count(*) FROM request").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn of_a_bundle_only_the_send_that_the_database_rejects_is_parked() {
    let world = World::with(|_| {}).await;
    let mut poison = send_to(vec![person("eve")]);
    poison.content.title = Some("a\0b".to_owned());
    let sends = [send_to(vec![person("ada")]), poison, send_to(vec![person("bob")])];
    let messages: Vec<Bytes> =
        (1..).zip(&sends).map(|(number, send)| accepted(world.app, send_number(number), send)).collect();
    world.publish(SENDS, bundle::encode("SendAccepted", &messages).into()).await;
    world.serve();
    // The rejected send becomes a message of its own, which is tried five times.
    world.dispatched(Lane::Transactional, 2).await;
    let planned: BTreeSet<_> = world.inboxes().await.iter().map(|(send, ..)| *send).collect();
    assert_eq!(planned, BTreeSet::from([1, 3].map(send_number)));
    let parked: Vec<(Option<uuid::Uuid>, Vec<u8>)> =
        sqlx::query_as("SELECT send_id, message FROM parked").fetch_all(&world.pool).await.unwrap();
    assert_eq!(parked, [(Some(send_number(2).0), messages[1].to_vec())]);
    assert_eq!(world.count("SELECT count(*) FROM request").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn messages_of_unknown_type_are_skipped_and_events_of_other_streams_are_parked() {
    let world = World::start().await;
    let envelope = |event| Envelope {
        id: clock::new_id(),
        app: world.app,
        at: clock::now(),
        send_id: None,
        caused_by: None,
        trace: None,
        event,
    };
    let homeless =
        envelope(Event::SendContinues(SendContinues { chunk: 1, expansion: None, has_topics: false }))
            .encode()
            .unwrap();
    let unknown = String::from_utf8(homeless.clone()).unwrap().replace("SendContinues", "SendPainted");
    world.publish(SENDS, homeless).await;
    world.publish(SENDS, unknown.into_bytes()).await;
    world.dispatched(Lane::Transactional, 2).await;
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 1);
}

#[tokio::test]
async fn a_message_of_a_newer_version_waits_and_other_sends_are_planned() {
    let world = World::start().await;
    let newer = Envelope {
        id: clock::new_id(),
        app: world.app,
        at: clock::now(),
        send_id: Some(send_number(1)),
        caused_by: None,
        trace: None,
        event: Event::SendAccepted(Box::new(send_to(vec![person("bob")]))),
    };
    let newer = String::from_utf8(newer.encode().unwrap()).unwrap().replace("\"v\":1", "\"v\":4");
    world.publish(SENDS, newer.clone().into_bytes()).await;
    world.accept(&send_to(vec![person("ada")])).await;
    eventually(SOON, "the other send is planned", async || {
        (world.count("SELECT count(*) FROM plan").await == 1).then_some(())
    })
    .await;

    // This consumer plays a dispatcher of the newer release. The log delivers the message to the consumer that fetches first.
    let settings =
        ConsumerSettings { ack_wait: world.context.config.delivery.ack_wait, max_ack_pending: 2_000 };
    let consumer = world.context.log.consumer(SENDS, "dispatcher", settings).await.unwrap();
    let handed = eventually(SOON, "the newer dispatcher gets the message", async || {
        consumer.fetch(1, Duration::from_secs(2)).await.unwrap().pop()
    })
    .await;
    assert_eq!(handed.payload, newer.as_bytes());
    handed.ack().await.unwrap();
    world.dispatched(Lane::Transactional, 2).await;
    assert_eq!(world.count("SELECT count(*) FROM plan").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}

#[tokio::test]
async fn a_chunk_with_unreadable_rows_waits_and_other_sends_are_planned() {
    let world = World::with(|_| {}).await;
    world.accept(&send_to(vec![person("ada")])).await;
    let strange = world.accept(&send_to(vec![person("eve")])).await;
    world.accept(&send_to(vec![person("bob")])).await;
    for query in [
        "INSERT INTO plan (app_id, send_id, turn) VALUES ($1, $2, 0)",
        "INSERT INTO planned_recipient VALUES ($1, $2, 0, 0, 'eve', NULL, false, '{pigeon:tired}')",
    ] {
        sqlx::query(query).bind(world.app.0).bind(strange.0).execute(&world.pool).await.unwrap();
    }
    world.serve();
    eventually(SOON, "the other sends have arrived", async || {
        (world.inboxes().await.len() == 2).then_some(())
    })
    .await;
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM parked").await, 0);
}
