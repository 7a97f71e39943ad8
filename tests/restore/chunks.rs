//! Chunks that were unfinished when the database was lost. In the backup they are still scheduled or parked.

use std::sync::Arc;

use domain::event::SendContinues;
use domain::{AppId, Envelope, Event, Lane, SendId, StreamName, Timestamp};
use event_log::Message;
use serde_json::json;
use sqlx::PgPool;
use store::database::failure::ParkRequest;
use store::deliveries::timer::NewTimer;
use store::sends::chunk::Chunk;
use store::{Settings, Store};
use testkit::Database;
use uuid::Uuid;

use crate::installation::Installation;

const STREAM: StreamName = StreamName::Send(Lane::Transactional);
const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);
const TIMER: Uuid = Uuid::from_u128(9);

fn message(app: AppId, send_id: SendId, event: Event) -> Vec<u8> {
    let id = Uuid::from_u128(8);
    let envelope = Envelope { id, app, at: NOW, send_id: Some(send_id), caused_by: None, trace: None, event };
    envelope.encode().unwrap()
}

/// Sends for which the restore created a timer that publishes a chunk. The timer in the backup does not count.
async fn ordered(database: &Database) -> Vec<Uuid> {
    let pool = PgPool::connect(database.url()).await.unwrap();
    let ordered = sqlx::query_scalar(
        "SELECT send_id FROM timer WHERE stream = 'SEND_transactional' AND id <> $1 ORDER BY send_id",
    )
    .bind(TIMER)
    .fetch_all(&pool)
    .await
    .unwrap();
    let parked: i64 = sqlx::query_scalar("SELECT count(*) FROM parked").fetch_one(&pool).await.unwrap();
    assert_eq!(parked, 0, "a redriven chunk is no longer parked");
    pool.close().await;
    ordered
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_published_by_a_timer_or_a_redrive_are_published_again_after_a_restore() {
    let installation = Installation::start().await;
    installation.accepts(&installation.database, &["app", "create", "shop"]);
    let pool = PgPool::connect(installation.database.url()).await.unwrap();
    let app = AppId(sqlx::query_scalar("SELECT id FROM app").fetch_one(&pool).await.unwrap());
    let [scheduled, put_back] = [1, 2].map(|number| SendId(Uuid::from_u128(number)));
    let send = |send_at: Option<Timestamp>| {
        let content = json!({"title": "Title"});
        let send =
            json!({"content": content, "recipients": ["ada"], "lane": "transactional", "sendAt": send_at});
        serde_json::from_value::<domain::SendRequest>(send).unwrap()
    };
    let continues = message(app, scheduled, Event::SendContinues(SendContinues::plain(&send(None), 0)));
    let accepted = message(app, put_back, Event::SendAccepted(Box::new(send(None))));

    let settings = Settings { url: installation.database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let chunk = Chunk::listed(app, scheduled, 0, NOW, Arc::new(send(Some(NOW))));
    let timer = NewTimer {
        id: TIMER,
        due_at: NOW,
        stream: STREAM,
        message: continues.clone(),
        app,
        send_id: Some(scheduled),
        user: None,
        wait: None,
    };
    assert!(store.sends().schedule(&chunk, &timer).await.unwrap());
    let aside = ParkRequest {
        id: Uuid::from_u128(7),
        app: Some(app),
        send_id: Some(put_back),
        stream: STREAM,
        seq: 1,
        message: &accepted,
        cause: "own failure",
    };
    store.database().park_message(&aside).await.unwrap();
    let dump = installation.dump();
    store.close().await;

    // After the dump, the timer's message was published and the parked chunk was redriven.
    let log = installation.log().await;
    for (id, payload) in [(TIMER, continues), (Uuid::from_u128(6), accepted)] {
        log.publish(Message { stream: STREAM, id: Some(id.to_string()), payload: payload.into() })
            .await
            .unwrap();
    }
    let restored = Database::restored(&dump).await.unwrap();
    installation.accepts(&restored, &["restore"]);
    assert_eq!(ordered(&restored).await, [scheduled.0, put_back.0]);
    installation.accepts(&restored, &["restore", "--physical-copy"]);
    assert_eq!(
        ordered(&restored).await,
        [scheduled.0, put_back.0],
        "a second restore creates no second timer"
    );
}
