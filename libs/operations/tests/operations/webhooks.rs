//! Webhook endpoints and their secrets.

use std::time::Duration;

use domain::webhook::WebhookEvent;
use operations::{Conflict, OperationError, Operations, webhooks};
use secrecy::ExposeSecret;
use serde_json::json;
use store::webhooks::MAX_ENDPOINTS;

use crate::world;

fn url(number: i64) -> String {
    format!("https://shop.example/hooks/{number}")
}

#[tokio::test]
async fn only_a_new_endpoint_gets_a_secret_and_a_rotation_keeps_the_previous_one() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    let new = webhooks::set(operations, admin, shop, &url(1), &[]).await.unwrap();
    assert_eq!(new.events, WebhookEvent::ALL);
    let secret = new.secret.unwrap();
    let events = [WebhookEvent::ALL[1], WebhookEvent::ALL[0], WebhookEvent::ALL[1]];
    let again = webhooks::set(operations, admin, shop, &url(1), &events).await.unwrap();
    assert_eq!((again.id, again.events.len()), (new.id, 2));
    assert!(again.secret.is_none());
    let rotated = webhooks::rotate_secret(operations, admin, shop, new.id, Duration::from_secs(60)).await;
    let rotated = rotated.unwrap();
    let valid = webhooks::secrets(operations, admin, shop, new.id).await.unwrap();
    let valid: Vec<_> = valid.iter().map(|secret| secret.text().expose_secret().to_owned()).collect();
    assert_eq!(valid, [rotated.expose_secret(), secret.expose_secret()]);
}

#[tokio::test]
async fn an_app_has_a_limited_number_of_endpoints() {
    let world = world().await;
    for number in 0..MAX_ENDPOINTS {
        webhooks::set(&world.operations, &world.admin, world.shop, &url(number), &[]).await.unwrap();
    }
    let refused = webhooks::set(&world.operations, &world.admin, world.shop, &url(99), &[]).await;
    assert!(matches!(refused, Err(OperationError::Conflict(Conflict::TooManyEndpoints))), "{refused:?}");
    let found = webhooks::find(&world.operations, &world.admin, world.shop, &url(3)).await.unwrap();
    let disabled = store::webhooks::Endpoint { disabled: Some((found.since, "410".to_owned())), ..found };
    let refused =
        webhooks::redeliver(&world.operations, &world.admin, world.shop, Some(&disabled), None).await;
    assert!(matches!(refused, Err(OperationError::Conflict(Conflict::EndpointDisabled))), "{refused:?}");
}

#[tokio::test]
async fn a_url_that_tidings_must_not_call_is_refused() {
    let world = world().await;
    for (url, code, says) in [
        ("http://shop.example/hooks", "not_https", "https"),
        ("https://10.1.2.3/hooks", "not_public", "public"),
        ("https://me:hunter2@shop.example/", "credentials_in_url", "no password"),
        ("shop.example", "malformed_url", "not a URL"),
    ] {
        let refused = webhooks::set(&world.operations, &world.admin, world.shop, url, &[]).await.unwrap_err();
        let OperationError::Invalid(problems) = refused else { panic!("{url}: {refused}") };
        assert_eq!((problems[0].field.as_str(), problems[0].code), ("url", code), "{url}");
        let message = &problems[0].message;
        assert!(message.contains(says) && !message.contains("hunter2"), "{message}");
    }
    assert_eq!(webhooks::list(&world.operations, &world.admin, world.shop).await.unwrap(), []);
    let private = Operations::new(world.store.clone(), world.master_key.clone(), true);
    webhooks::set(&private, &world.admin, world.shop, "http://10.1.2.3/hooks", &[]).await.unwrap();
}

#[tokio::test]
async fn a_redelivery_is_audited_with_the_number_of_messages() {
    let world = world().await;
    let (operations, admin, shop) = (&world.operations, &world.admin, world.shop);
    let endpoint = webhooks::set(operations, admin, shop, &url(1), &[]).await.unwrap().id;
    let before = world.audit().await.len();
    assert_eq!(webhooks::redeliver(operations, admin, shop, None, None).await.unwrap(), 0);
    assert_eq!(world.audit().await.len(), before, "nothing was redelivered");
    world
        .run(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, settled_at)
             SELECT app_id, id, gen_random_uuid(), gen_random_uuid(), 'delivery.sent', '{}', 'failed', now()
             FROM webhook_endpoint, generate_series(1, 3)",
        )
        .await;
    let found = webhooks::find(operations, admin, shop, &url(1)).await.unwrap();
    assert_eq!(webhooks::redeliver(operations, admin, shop, Some(&found), None).await.unwrap(), 3);
    let audit = world.audit().await;
    let row = (audit[0].action.as_str(), audit[0].subject.clone(), audit[0].after.clone());
    assert_eq!(row, ("webhook.redeliver", endpoint.to_string(), Some(json!({"messages": 3}))));
}
