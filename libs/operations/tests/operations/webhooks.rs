//! Webhook endpoints and their secrets.

use std::time::Duration;

use domain::webhook::WebhookEvent;
use operations::{Conflict, OperationError, webhooks};
use secrecy::ExposeSecret;
use store::webhooks::MAX_ENDPOINTS;
use url::Url;

use crate::world;

fn url(number: i64) -> Url {
    Url::parse(&format!("https://shop.example/hooks/{number}")).unwrap()
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
    let found = webhooks::find(&world.operations, &world.admin, world.shop, url(3).as_str()).await.unwrap();
    let disabled = store::webhooks::Endpoint { disabled: Some((found.since, "410".to_owned())), ..found };
    let refused =
        webhooks::redeliver(&world.operations, &world.admin, world.shop, Some(&disabled), None).await;
    assert!(matches!(refused, Err(OperationError::Conflict(Conflict::EndpointDisabled))), "{refused:?}");
}
