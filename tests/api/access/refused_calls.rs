//! Refused calls are listed for their app.

use serde_json::json;
use store::control::refused_call::RefusedCalls;
use testkit::eventually;

use crate::service::{App, Backing, SOON, Service, plain_send};

const SEND: &str = "POST /v3/notifications";

/// Waits until the app has a number of rows, and returns them, latest first.
async fn listed(service: &Service, app: &App, number: usize) -> Vec<RefusedCalls> {
    eventually(SOON, "the refused calls are stored", async || {
        let rows = service.context.store.control().refused_calls(app.id, 100).await.unwrap();
        (rows.len() >= number).then_some(rows)
    })
    .await
}

#[tokio::test]
async fn refused_calls_are_listed_for_their_app_without_bodies_and_with_masked_clients() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop-key-of-an-app").await, service.app("bank").await);
    let body = json!({"notification": {"title": 7}, "sendTo": {"recipients": ["ada@example.com"]}});
    for _ in 0..3 {
        service
            .by(&shop, SEND)
            .json(&body)
            .send()
            .await
            .has_problems(&[("notification.title", "invalid_type")]);
    }
    let stranger = service.call(SEND).header("X-SERVICE-API-KEY", &shop.key);
    let stranger = stranger.header("X-SERVICE-API-SECRET", "wrong").json(&plain_send(&["ada"]));
    stranger.send().await.fails(401, "invalid_credentials");
    service
        .by(&shop, "GET /v3/requests/018f0000-0000-7000-8000-000000000001")
        .send()
        .await
        .fails(404, "not_found");
    service.by(&shop, SEND).json(&plain_send(&["ada"])).send().await.is(202);

    let rows = eventually(SOON, "all refused calls are stored", async || {
        let rows = listed(&service, &shop, 2).await;
        (rows.iter().map(|row| row.times).sum::<u32>() == 4).then_some(rows)
    })
    .await;
    let of = |status: u16| rows.iter().filter(move |row| row.call.status == status);
    assert!(rows.iter().all(|row| [400, 401].contains(&row.call.status)), "{rows:?}");
    assert_eq!(of(400).map(|row| row.times).sum::<u32>(), 3, "equal calls are one row or few: {rows:?}");
    let invalid = &of(400).next().unwrap().call;
    assert_eq!((invalid.method.as_str(), invalid.route.as_str()), ("POST", "/v3/notifications"));
    assert_eq!(
        (invalid.code.as_str(), invalid.fields.as_slice()),
        ("invalid_type", ["notification.title".to_owned()].as_slice())
    );
    assert_eq!((invalid.client.as_str(), invalid.proven), ("127.0.0.x", true));
    assert_eq!(invalid.api_key, "shop-key", "only the start of the key is stored");
    let wrong = &of(401).next().unwrap().call;
    assert_eq!((wrong.code.as_str(), wrong.proven), ("invalid_credentials", false));
    assert!(!format!("{rows:?}").contains("ada"), "{rows:?}");
    assert_eq!(service.context.store.control().refused_calls(bank.id, 100).await.unwrap(), []);
}

#[tokio::test]
async fn the_last_refused_calls_are_stored_when_a_gateway_stops() {
    let mut service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .by(&shop, SEND)
        .json(&json!({}))
        .send()
        .await
        .has_problems(&[("notification", "required"), ("sendTo.recipients", "required")]);
    service.restart(Backing::Nothing).await;
    listed(&service, &shop, 1).await;
}
