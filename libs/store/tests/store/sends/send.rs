//! Sends whose body is stored for later chunks.

use std::sync::Arc;
use std::time::Duration;

use domain::{AppId, StreamName, Timestamp};
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use uuid::Uuid;

use crate::{NOW, fixture, recipient, send_id, send_to};

fn scheduled(app: AppId) -> Chunk {
    let mut send = send_to(vec![recipient("ada")]);
    send.send_at = Some(NOW + Duration::from_secs(60));
    Chunk::listed(app, send_id(1), 0, NOW, Arc::new(send))
}

fn timer(app: AppId, due_at: Timestamp, number: u128) -> NewTimer {
    let (id, send_id) = (Uuid::from_u128(number), Some(send_id(1)));
    NewTimer {
        id,
        due_at,
        stream: StreamName::Outcome,
        message: b"later".to_vec(),
        app,
        send_id,
        user: None,
        wait: None,
    }
}

#[tokio::test]
async fn a_send_is_scheduled_once() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunk = scheduled(app);
    for number in [1, 2] {
        assert!(fixture.store.sends().schedule(&chunk, &timer(app, NOW, number)).await.unwrap());
    }
    let due = fixture.store.deliveries().due_timers(10).await.unwrap();
    assert_eq!(due.timers.iter().map(|timer| timer.id).collect::<Vec<_>>(), [Uuid::from_u128(1)]);
    let kept = fixture.store.sends().find_stored_send(app, send_id(1), 0).await.unwrap().unwrap();
    assert_eq!((kept.accepted_at, kept.send.as_ref()), (NOW, Some(&*chunk.send)));
}

#[tokio::test]
async fn a_send_with_a_frozen_first_chunk_does_not_wait_for_a_timer() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let chunks = [scheduled(app)];
    let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    let facts = freeze.write_profiles_and_read_facts().await.unwrap();
    freeze.commit(&facts).await.unwrap();
    assert!(!fixture.store.sends().schedule(&chunks[0], &timer(app, NOW, 1)).await.unwrap());
    assert!(fixture.store.deliveries().due_timers(10).await.unwrap().timers.is_empty());
}

#[tokio::test]
async fn planning_a_scheduled_send_keeps_its_body_until_it_is_dropped() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    let chunks = [scheduled(app)];
    fixture.store.sends().schedule(&chunks[0], &timer(app, NOW, 1)).await.unwrap();
    let mut freeze = fixture.store.sends().freeze(&chunks).await.unwrap();
    let facts = freeze.write_profiles_and_read_facts().await.unwrap();
    freeze.commit(&facts).await.unwrap();
    let body =
        async || fixture.store.sends().find_stored_send(app, send_id(1), 0).await.unwrap().unwrap().send;
    assert_eq!(body().await.as_ref(), Some(&*chunks[0].send));
    fixture.store.sends().drop_body(other, send_id(1), 0).await.unwrap();
    assert!(body().await.is_some(), "wrong app");
    fixture.store.sends().drop_body(app, send_id(1), 0).await.unwrap();
    assert_eq!(body().await, None);
    assert!(fixture.store.sends().find_stored_send(other, send_id(1), 0).await.unwrap().is_none());
}
