//! Web push: subscriptions of devices, and the keys of apps.

use domain::device::MAX_DEVICES;
use domain::web_push::Subscription;
use domain::{AppId, Channel, Timestamp};
use store::control::vapid_key::NewVapidKey;
use store::directory::web_push::SubscriptionName;
use store::sends::planned_chunk::Decisions;

use crate::sends::plan::{chunk, frozen};
use crate::{Fixture, fixture, recipient, send_to};

fn subscription(endpoint: &str) -> Subscription {
    Subscription { endpoint: endpoint.to_owned(), p256dh: vec![4; 65], auth: vec![7; 16], expires_at: None }
}

/// Returns the user, the device and the endpoint of each subscription.
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

/// Returns the web push targets of the first recipient of each chunk.
fn web_push_targets(decided: &[Decisions]) -> Vec<Vec<&str>> {
    let first = decided.iter().map(|chunk| &chunk[0].1);
    first
        .map(|decision| {
            let deliveries = decision.deliveries.iter();
            deliveries.filter(|one| one.channel == Channel::WebPush).map(|one| one.target.as_str()).collect()
        })
        .collect()
}

#[tokio::test]
async fn an_endpoint_belongs_to_the_last_device_that_subscribed_it() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let subscribe = async |app, user, device, endpoint| {
        fixture.store.directory().subscribe(app, user, device, &subscription(endpoint)).await.unwrap();
    };
    subscribe(shop, "ada", "laptop", "e1").await;
    subscribe(shop, "ada", "phone", "e2").await;
    subscribe(bank, "ada", "laptop", "e1").await;
    subscribe(shop, "ada", "laptop", "e3").await;
    subscribe(shop, "bob", "laptop", "e2").await;
    let expected = [owner("ada", "laptop", "e3"), owner("bob", "laptop", "e2")];
    assert_eq!(subscriptions(&fixture, shop).await, expected);
    assert_eq!(subscriptions(&fixture, bank).await, [owner("ada", "laptop", "e1")]);
    let ada = fixture.store.directory().find_user(shop, "ada").await.unwrap().unwrap();
    let devices = fixture.store.directory().list_devices(shop, ada.number).await.unwrap();
    let reached: Vec<_> = devices.iter().map(|device| (device.device_id.as_str(), device.web_push)).collect();
    assert_eq!(reached, [("laptop", true), ("phone", false)]);

    assert!(!fixture.store.directory().unsubscribe(shop, "ada", "phone").await.unwrap());
    assert!(!fixture.store.directory().unsubscribe(shop, "eve", "laptop").await.unwrap());
    assert!(fixture.store.directory().unsubscribe(shop, "ada", "laptop").await.unwrap());
    assert_eq!(subscriptions(&fixture, shop).await, [owner("bob", "laptop", "e2")]);
}

#[tokio::test]
async fn concurrent_subscriptions_to_the_same_endpoints_do_not_deadlock() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let store = fixture.store.clone();
        writers.spawn(async move {
            let endpoint = format!("e{}", writer % 2);
            store
                .directory()
                .subscribe(app, &format!("user-{}", writer % 8), "laptop", &subscription(&endpoint))
                .await
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
async fn a_dropped_device_loses_its_subscription() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    for index in 0..=MAX_DEVICES {
        let (device, endpoint) = (format!("d{index}"), format!("e{index}"));
        fixture.store.directory().subscribe(app, "ada", &device, &subscription(&endpoint)).await.unwrap();
    }
    let left = subscriptions(&fixture, app).await;
    assert_eq!(i64::try_from(left.len()).unwrap(), MAX_DEVICES);
    assert!(!left.contains(&owner("ada", "d0", "e0")));
}

#[tokio::test]
async fn an_app_keeps_its_first_key_pair() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    assert_eq!(fixture.store.control().apps_without_vapid_key().await.unwrap(), [shop, bank]);
    for public_key in ["first", "second"] {
        fixture
            .store
            .control()
            .add_vapid_key(shop, NewVapidKey { public_key, sealed: b"sealed" })
            .await
            .unwrap();
    }
    assert_eq!(fixture.store.control().vapid_public_key(shop).await.unwrap().as_deref(), Some("first"));
    assert_eq!(fixture.store.control().vapid_public_key(bank).await.unwrap(), None);
    let key = fixture.store.control().vapid_key(shop).await.unwrap().unwrap();
    assert_eq!((key.public_key.as_str(), key.sealed.as_slice()), ("first", &b"sealed"[..]));
    assert!(fixture.store.control().vapid_key(bank).await.unwrap().is_none());
    assert_eq!(fixture.store.control().apps_without_vapid_key().await.unwrap(), [bank]);
}

#[tokio::test]
async fn browser_keys_are_returned_only_for_live_subscriptions_of_the_user() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    for (app, user, endpoint, auth, expires) in [
        (shop, "ada", "e1", 1, None),
        (shop, "ada", "e2", 2, Some(1_000)),
        (shop, "bob", "e3", 3, Some(4_102_444_800_000)),
        (bank, "ada", "e1", 4, None),
    ] {
        let expires_at = expires.map(Timestamp::from_millis);
        let subscription = Subscription { auth: vec![auth; 16], expires_at, ..subscription(endpoint) };
        fixture.store.directory().subscribe(app, user, endpoint, &subscription).await.unwrap();
    }
    let number =
        async |app, user| fixture.store.directory().find_user(app, user).await.unwrap().unwrap().number;
    let (ada, bob, other) = (number(shop, "ada").await, number(shop, "bob").await, number(bank, "ada").await);
    let name = |app, user, endpoint: &str| SubscriptionName { app, user, endpoint: endpoint.to_owned() };
    let named = [
        name(shop, bob, "e3"),
        name(shop, ada, "e2"),
        name(shop, bob, "e1"),
        name(shop, ada, "e1"),
        name(bank, other, "e1"),
        name(shop, ada, "e1"),
        name(shop, ada, "e9"),
    ];
    let found = fixture.store.directory().browser_keys(&named).await.unwrap();
    let auths: Vec<_> = found.iter().map(|keys| keys.as_ref().map(|keys| keys.auth[0])).collect();
    assert_eq!(auths, [Some(3), None, None, Some(1), Some(4), Some(1), None]);
    assert!(fixture.store.directory().browser_keys(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn browsers_are_targets_if_the_app_has_a_web_push_provider() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    for (app, user, device, endpoint, expires) in [
        (shop, "ada", "phone", "https://a/2", None),
        (shop, "ada", "laptop", "https://a/1", Some(4_102_444_800_000)),
        (shop, "ada", "tablet", "https://a/3", Some(1_000)),
        (shop, "ada", "watch", "https://a/4", None),
        (shop, "bob", "laptop", "https://b/1", None),
        (bank, "ada", "laptop", "https://c/1", None),
    ] {
        let expires_at = expires.map(Timestamp::from_millis);
        let endpoint = endpoint.to_owned();
        let subscription = Subscription { endpoint, p256dh: vec![4; 65], auth: vec![7; 16], expires_at };
        fixture.store.directory().subscribe(app, user, device, &subscription).await.unwrap();
    }
    sqlx::query(
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         VALUES ($1, 'webPush', 'https://a/4', gen_random_uuid(), '410'), ($2, 'webPush', 'https://a/1', gen_random_uuid(), '410')",
    )
    .bind(shop.0)
    .bind(bank.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let to = |name: &str| send_to(vec![recipient(name)]);
    let chunks =
        [chunk(shop, 1, 0, &to("ada")), chunk(shop, 2, 0, &to("bob")), chunk(bank, 3, 0, &to("ada"))];
    let (facts, decided) = frozen(&fixture.store, &chunks).await;
    assert_eq!(web_push_targets(&decided), [[""; 0]; 3], "no app has a provider");
    let ada = facts.user(shop, "ada").unwrap().0;
    assert!(facts.endpoints(shop, ada).is_empty(), "endpoints are not read without a provider");

    sqlx::query(
        "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
         VALUES ($1, 'browsers', 'webPush', 'vapid', 1, true, '{}')",
    )
    .bind(shop.0)
    .execute(&fixture.pool)
    .await
    .unwrap();
    let chunks =
        [chunk(shop, 4, 0, &to("ada")), chunk(shop, 5, 0, &to("bob")), chunk(bank, 6, 0, &to("ada"))];
    let (_, decided) = frozen(&fixture.store, &chunks).await;
    assert_eq!(web_push_targets(&decided), [vec!["https://a/1", "https://a/2"], vec!["https://b/1"], vec![]]);
    let statement = "SELECT count(DISTINCT id) FROM delivery WHERE channel = 'webPush'";
    assert_eq!(fixture.count(statement).await, 3);

    // A dry run reads the same endpoints.
    let (_, imagined) = fixture.store.sends().simulate_facts(chunks[0].clone()).await.unwrap();
    assert_eq!(imagined.endpoints(shop, ada).len(), 3, "facts include suppressed endpoints");
    let devices = fixture.store.directory().list_devices(shop, ada).await.unwrap();
    let mut reached: Vec<_> = devices.iter().map(|one| (one.device_id.as_str(), one.web_push)).collect();
    reached.sort_unstable();
    assert_eq!(reached, [("laptop", true), ("phone", true), ("tablet", false), ("watch", false)]);
}
