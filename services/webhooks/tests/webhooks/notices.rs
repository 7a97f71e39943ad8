//! Content of the messages for an event, and the endpoints that get them.

use domain::webhook::WebhookEvent;
use domain::{Actor, Status, StreamName};
use serde_json::json;
use store::webhooks::WEBHOOKS;
use uuid::Uuid;

use crate::world::{SEND, World, patient, settings};

#[tokio::test]
async fn a_webhook_has_the_ids_status_and_reason_of_its_delivery_but_no_address() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    world.settled(1, Status::Retrying).await;
    world.settled(1, Status::Sent).await;
    world.settled(2, Status::Failed).await;
    world.suppressed(2).await;
    world.settled(3, Status::Delivered).await;
    world.settled(4, Status::Parked).await;
    world.serve(settings());
    let received = world.received(5).await;
    let of = |delivery: u128| {
        let id = json!(Uuid::from_u128(delivery));
        received.iter().filter(|call| call.body["data"]["deliveryId"] == id).collect::<Vec<_>>()
    };
    let sent = &of(1)[0].body;
    assert_eq!((sent["type"].as_str(), of(1).len()), (Some("delivery.sent"), 1));
    assert!(sent["timestamp"].as_str().unwrap().ends_with('Z'));
    let data = json!({
        "requestId": SEND, "deliveryId": Uuid::from_u128(1), "recipient": "user-1", "channel": "email",
        "status": "sent", "reason": null, "attempt": 1, "provider": "main",
    });
    assert_eq!(sent["data"], data);
    assert_eq!(
        (&of(2)[0].body["type"], &of(2)[1].body["type"]),
        (&json!("delivery.failed"), &json!("delivery.suppressed"))
    );
    assert_eq!(of(2)[0].body["data"]["reason"], "provider_refused");
    assert_eq!(of(2)[1].body["data"]["reason"], "target_gone");
    assert_eq!(of(3)[0].body["type"], "delivery.delivered");
    assert_eq!(
        (&of(4)[0].body["type"], &of(4)[0].body["data"]["status"]),
        (&json!("delivery.failed"), &json!("parked"))
    );
    assert_eq!(world.backend.refused(), Vec::<&str>::new());
}

#[tokio::test]
async fn an_endpoint_receives_only_events_of_its_types_that_follow_its_creation() {
    let mut world = World::start().await;
    world.settled_a_second_ago(1, Status::Failed).await;
    let url = world.backend.url("/failures");
    world.endpoint_for(&url, &[WebhookEvent::DeliveryFailed]).await;
    world.endpoint("/all").await;
    world.settled(2, Status::Sent).await;
    world.settled(3, Status::Failed).await;
    world.serve(settings());
    world.followed().await;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM webhook_message").fetch_one(&world.pool).await.unwrap();
    assert_eq!(rows, 3);
    let received = world.received(3).await;
    let mut reported: Vec<_> =
        received.iter().map(|call| (call.path.as_str(), call.body["type"].as_str().unwrap())).collect();
    reported.sort_unstable();
    assert_eq!(
        reported,
        [("/all", "delivery.failed"), ("/all", "delivery.sent"), ("/failures", "delivery.failed")]
    );
}

#[tokio::test]
async fn a_repeated_event_creates_one_webhook_and_an_unreadable_event_is_dead_lettered() {
    let mut world = World::start().await;
    world.endpoint("/hooks").await;
    let first = world.context.log.state(StreamName::Outcome).await.unwrap().last_seq + 1;
    world.settled(1, Status::Sent).await;
    let mut reader = world.context.log.reader(StreamName::Outcome, first);
    let record = reader.next_batch(1, std::time::Duration::ZERO).await.unwrap().remove(0);
    world.publish(StreamName::Outcome, record.payload.to_vec()).await;
    world.publish(StreamName::Outcome, b"no envelope".to_vec()).await;
    world.settled(2, Status::Sent).await;
    world.serve(patient());
    assert_eq!(world.received(2).await.len(), 2);
    world.followed().await;
    world.messages("delivered", 2).await;
    assert_eq!(world.backend.attempts().len(), 2);
    let dead: i64 = sqlx::query_scalar("SELECT count(*) FROM dead_event WHERE projection = $1")
        .bind(WEBHOOKS)
        .fetch_one(&world.pool)
        .await
        .unwrap();
    assert_eq!(dead, 1);
}

#[tokio::test]
async fn both_secrets_verify_during_a_rotation() {
    use secrecy::ExposeSecret;
    let mut world = World::start().await;
    let id = world.endpoint("/hooks").await;
    let secret = webhooks::Secret::generate().unwrap().text();
    let context = credentials::secrets::webhook_secret_context(world.app, id);
    let sealed = world.context.master_key.seal(&context, secret.expose_secret().as_bytes()).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let store = &world.context.store;
    assert!(
        store
            .webhooks()
            .rotate_webhook_secret(world.app, id, &sealed, (hour, None), &Actor::System)
            .await
            .unwrap()
    );
    assert_eq!(store.webhooks().webhook_secrets(world.app, id).await.unwrap().len(), 2);
    world.settled(1, Status::Sent).await;
    world.serve(settings());
    world.received(1).await;
    world.backend.trust(&[secret.expose_secret()]);
    world.settled(2, Status::Sent).await;
    world.received(2).await;
    assert_eq!(world.backend.refused(), Vec::<&str>::new());

    let again = store.webhooks().rotate_webhook_secret(
        world.app,
        id,
        &sealed,
        (std::time::Duration::ZERO, None),
        &Actor::System,
    );
    assert!(again.await.unwrap());
    assert_eq!(store.webhooks().webhook_secrets(world.app, id).await.unwrap().len(), 1);
}
