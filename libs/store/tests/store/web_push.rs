//! Web push: subscriptions of devices, and the keys of apps.

use domain::AppId;
use domain::device::MAX_DEVICES;
use domain::web_push::Subscription;
use store::vapid_key::NewVapidKey;

use crate::{Fixture, fixture};

fn subscription(endpoint: &str) -> Subscription {
    Subscription { endpoint: endpoint.to_owned(), p256dh: vec![4; 65], auth: vec![7; 16], expires_at: None }
}

/// Who has a subscription: user, device and endpoint.
async fn subscriptions(fixture: &Fixture, app: AppId) -> Vec<(String, String, String)> {
    sqlx::query_as(
        "SELECT u.identifier, s.device_id, s.endpoint FROM web_push_subscription s
         JOIN app_user u ON u.app_id = s.app_id AND u.number = s.user_number WHERE s.app_id = $1 ORDER BY 1, 2",
    )
    .bind(app.0)
    .fetch_all(&fixture.pool)
    .await
    .unwrap()
}

fn owner(user: &str, device: &str, endpoint: &str) -> (String, String, String) {
    (user.to_owned(), device.to_owned(), endpoint.to_owned())
}

#[tokio::test]
async fn an_endpoint_belongs_to_the_last_that_sent_it() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let subscribe = async |app, user, device, endpoint| {
        fixture.store.subscribe(app, user, device, &subscription(endpoint)).await.unwrap();
    };
    subscribe(shop, "ada", "laptop", "e1").await;
    subscribe(shop, "ada", "phone", "e2").await;
    subscribe(bank, "ada", "laptop", "e1").await;
    subscribe(shop, "ada", "laptop", "e3").await;
    subscribe(shop, "bob", "laptop", "e2").await;
    let expected = [owner("ada", "laptop", "e3"), owner("bob", "laptop", "e2")];
    assert_eq!(subscriptions(&fixture, shop).await, expected);
    assert_eq!(subscriptions(&fixture, bank).await, [owner("ada", "laptop", "e1")]);
    let ada = fixture.store.find_user(shop, "ada").await.unwrap().unwrap();
    let devices = fixture.store.list_devices(shop, ada.number).await.unwrap();
    let reached: Vec<_> = devices.iter().map(|device| (device.device_id.as_str(), device.web_push)).collect();
    assert_eq!(reached, [("laptop", true), ("phone", false)]);

    assert!(!fixture.store.unsubscribe(shop, "ada", "phone").await.unwrap());
    assert!(!fixture.store.unsubscribe(shop, "eve", "laptop").await.unwrap());
    assert!(fixture.store.unsubscribe(shop, "ada", "laptop").await.unwrap());
    assert_eq!(subscriptions(&fixture, shop).await, [owner("bob", "laptop", "e2")]);
}

#[tokio::test]
async fn users_that_want_the_same_endpoints_at_once_all_come_to_an_end() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let store = fixture.store.clone();
        writers.spawn(async move {
            let endpoint = format!("e{}", writer % 2);
            store.subscribe(app, &format!("user-{}", writer % 8), "laptop", &subscription(&endpoint)).await
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap().unwrap();
    }
    let mut endpoints: Vec<_> = subscriptions(&fixture, app).await.into_iter().map(|(.., e)| e).collect();
    endpoints.sort_unstable();
    assert_eq!(endpoints, ["e0", "e1"]);
}

#[tokio::test]
async fn a_device_that_gives_way_takes_its_subscription_along() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    for index in 0..=MAX_DEVICES {
        let (device, endpoint) = (format!("d{index}"), format!("e{index}"));
        fixture.store.subscribe(app, "ada", &device, &subscription(&endpoint)).await.unwrap();
    }
    let left = subscriptions(&fixture, app).await;
    assert_eq!(i64::try_from(left.len()).unwrap(), MAX_DEVICES);
    assert!(!left.contains(&owner("ada", "d0", "e0")));
}

#[tokio::test]
async fn an_app_keeps_its_first_key_pair() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    assert_eq!(fixture.store.apps_without_vapid_key().await.unwrap(), [shop, bank]);
    for public_key in ["first", "second"] {
        fixture.store.add_vapid_key(shop, NewVapidKey { public_key, sealed: b"sealed" }).await.unwrap();
    }
    assert_eq!(fixture.store.vapid_public_key(shop).await.unwrap().as_deref(), Some("first"));
    assert_eq!(fixture.store.vapid_public_key(bank).await.unwrap(), None);
    assert_eq!(fixture.store.apps_without_vapid_key().await.unwrap(), [bank]);
}
