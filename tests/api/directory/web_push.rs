//! `/v3/devices/{deviceId}/webPushSubscription`, and the web push members in the answer to the connect call.

use credentials::vapid;
use domain::{Actor, Channel};
use serde_json::{Value, json};
use service_kit::clock;
use store::control::provider::{NewProvider, SecretChange};

use crate::service::{App, Backing, Service};

const ENDPOINT: &str = "https://fcm.googleapis.com/fcm/send/abc";
/// The browser's keys of RFC 8291, appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

fn subscription(endpoint: &str) -> Value {
    json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": P256DH, "auth": AUTH}})
}

/// Returns the ids of the user's devices, most recently connected first. The flag is true if the device has a subscription.
async fn devices(service: &Service, app: &App, user: &str) -> Vec<(String, bool)> {
    let store = &service.context.store;
    let user = store.directory().find_user(app.id, user).await.unwrap().unwrap();
    let devices = store.directory().list_devices(app.id, user.number).await.unwrap();
    devices.into_iter().map(|device| (device.device_id, device.web_push)).collect()
}

fn device(id: &str, web_push: bool) -> (String, bool) {
    (id.to_owned(), web_push)
}

#[tokio::test]
async fn a_subscription_is_stored_moved_to_another_user_and_removed() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (service.app("shop").await, service.app("bank").await);
    let subscribe = async |app: &App, user: &str, device: &str, endpoint: &str| {
        let call = service.of(app, user, &format!("POST /v3/devices/{device}/webPushSubscription"));
        let answer = call.json(&subscription(endpoint)).send().await.is(200);
        assert_eq!(answer["statusCode"], 200);
        assert!(answer["message"].is_string());
    };
    subscribe(&shop, "ada", "laptop%2F1", ENDPOINT).await;
    assert_eq!(devices(&service, &shop, "ada").await, [device("laptop/1", true)]);
    subscribe(&bank, "ada", "d", ENDPOINT).await;
    assert_eq!(
        devices(&service, &shop, "ada").await,
        [device("laptop/1", true)],
        "another app's subscription is separate"
    );
    subscribe(&shop, "bob", "d", "HTTPS://FCM.googleapis.com:443/fcm/send/abc").await;
    assert_eq!(devices(&service, &shop, "ada").await, [device("laptop/1", false)]);
    assert_eq!(devices(&service, &shop, "bob").await, [device("d", true)]);

    let remove = |app, user| service.of(app, user, "DELETE /v3/devices/d/webPushSubscription").send();
    for (app, user) in [(&shop, "ada"), (&shop, "nobody"), (&bank, "bob")] {
        remove(app, user).await.fails(404, "not_found");
    }
    assert_eq!(remove(&shop, "bob").await.is(200)["statusCode"], 200);
    remove(&shop, "bob").await.fails(404, "not_found");
    assert_eq!(devices(&service, &shop, "bob").await, [device("d", false)]);
    assert_eq!(devices(&service, &bank, "ada").await, [device("d", true)]);
    let by_app = "POST /v3/devices/d/webPushSubscription/?userIdentifier=eve";
    service.by(&shop, by_app).json(&subscription(ENDPOINT)).send().await.is(200);
    assert_eq!(devices(&service, &shop, "eve").await, [device("d", true)]);
}

#[tokio::test]
async fn every_problem_of_a_subscription_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let keys = json!({"p256dh": P256DH, "auth": AUTH});
    let beside_the_curve = format!("{}A", &P256DH[..86]);
    let compressed = format!("A{}", &P256DH[1..44]);
    let long = format!("{ENDPOINT}{}", "a".repeat(2048));
    let cases: [(Value, &[(&str, &str)]); 11] = [
        (json!({}), &[("endpoint", "required"), ("keys", "required")]),
        (json!([7]), &[("", "invalid_type")]),
        (
            json!({"endpoint": null, "keys": {}}),
            &[("endpoint", "required"), ("keys.p256dh", "required"), ("keys.auth", "required")],
        ),
        (
            json!({"endpoint": 7, "expirationTime": "soon", "keys": "x"}),
            &[("endpoint", "invalid_type"), ("expirationTime", "invalid_time"), ("keys", "invalid_type")],
        ),
        (
            json!({"endpoint": ENDPOINT, "expirationTime": -1, "keys": keys}),
            &[("expirationTime", "invalid_time")],
        ),
        (json!({"endpoint": long, "keys": keys}), &[("endpoint", "too_long")]),
        (
            json!({"endpoint": "https://u:p@10.0.0.1:8080/#x", "keys": keys}),
            &[
                ("endpoint", "fragment"),
                ("endpoint", "user_info"),
                ("endpoint", "invalid_port"),
                ("endpoint", "ip_address"),
            ],
        ),
        (
            json!({"endpoint": "https://push.example/x", "keys": {"p256dh": beside_the_curve, "auth": P256DH}}),
            &[
                ("endpoint", "unknown_push_service"),
                ("keys.p256dh", "invalid_key"),
                ("keys.auth", "invalid_key"),
            ],
        ),
        (
            json!({"endpoint": ENDPOINT, "keys": {"p256dh": compressed, "auth": "*"}}),
            &[("keys.p256dh", "invalid_key"), ("keys.auth", "invalid_key")],
        ),
        (
            json!({"endpoint": "https://\u{0}", "keys": keys}),
            &[("endpoint", "invalid_character"), ("endpoint", "invalid_character")],
        ),
        (
            json!({"endpoint": ENDPOINT, "expirationTime": 1e300, "keys": keys}),
            &[("expirationTime", "unsafe_number"), ("expirationTime", "invalid_time")],
        ),
    ];
    let subscribe = || service.of(&shop, "ada", "POST /v3/devices/d/webPushSubscription");
    for (body, expected) in cases {
        subscribe().json(&body).send().await.has_problems(expected);
    }
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);
}

#[tokio::test]
async fn an_expiration_time_in_another_unit_than_milliseconds_is_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let subscribe = async |time: &Value| {
        let body =
            json!({"endpoint": ENDPOINT, "expirationTime": time, "keys": {"p256dh": P256DH, "auth": AUTH}});
        service.of(&shop, "ada", "POST /v3/devices/d/webPushSubscription").json(&body).send().await
    };
    let seconds = clock::now().millis() / 1000 + 86_400;
    for time in [
        json!(seconds),
        json!(seconds as f64 + 0.5),
        json!(seconds * 1_000_000),
        json!(seconds.to_string()),
        json!(0),
    ] {
        let answer = subscribe(&time).await;
        let field = answer.body["errors"][0]["field"].as_str();
        assert_eq!((answer.status, field), (400, Some("expirationTime")), "{time}: {}", answer.body);
    }
    for time in [json!(seconds * 1000), Value::Null] {
        assert_eq!(subscribe(&time).await.status, 200, "{time}");
    }
}

#[tokio::test]
async fn subscriptions_accept_lenient_forms_and_refuse_unknown_members_if_strict() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let subscribe = || service.of(&shop, "ada", "POST /v3/devices/d/webPushSubscription");
    let mut more = subscription(ENDPOINT);
    more["keys"]["more"] = json!(1);
    more["name"] = json!("x");
    let strict = subscribe().header("Prefer", "handling=strict").json(&more).send().await;
    strict.has_problems(&[("keys.more", "unknown_member"), ("name", "unknown_member")]);
    let id = "d".repeat(256);
    let long = service.of(&shop, "ada", &format!("POST /v3/devices/{id}/webPushSubscription"));
    long.json(&subscription(ENDPOINT)).send().await.has_problems(&[("deviceId", "too_long")]);
    let public = service.call("POST /v3/devices/d/webPushSubscription");
    public.header("X-SERVICE-API-KEY", &shop.key).send().await.fails(401, "user_required");
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);

    more["expirationTime"] = json!(1_900_000_000_000.5);
    more["keys"]["auth"] = json!(format!("{AUTH}=="));
    subscribe().json(&more).send().await.is(200);
}

#[tokio::test]
async fn connecting_returns_the_key_for_subscribing() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let store = &service.context.store;
    vapid::create(store, &service.context.master_key, shop.id).await.unwrap();
    let key = store.control().vapid_public_key(shop.id).await.unwrap();
    let connected = async || {
        let connect = service.of(&shop, "ada", "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", "d");
        let answer = connect.json(&json!({"deviceType": "browser"})).send().await.is(200);
        (answer["app"]["enableWebPush"].clone(), answer["app"]["publicKey"].clone())
    };
    assert_eq!(connected().await, (json!(false), json!(key)));
    let provider = NewProvider {
        identifier: "push",
        channel: Channel::WebPush,
        kind: "vapid",
        priority: 1,
        enabled: true,
        settings: &json!({}),
        secret: SecretChange::Remove,
        max_per_second: None,
    };
    store.control().put_provider(shop.id, provider, &Actor::System).await.unwrap();
    assert_eq!(connected().await, (json!(true), json!(key)));
    store
        .control()
        .put_provider(shop.id, NewProvider { enabled: false, ..provider }, &Actor::System)
        .await
        .unwrap();
    assert_eq!(connected().await, (json!(false), json!(key)));
}
