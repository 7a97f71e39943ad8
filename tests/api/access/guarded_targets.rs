//! Apps with the setting `address-keys=guarded`: callers that have only the public key cannot change a user's targets.

use domain::Actor;
use domain::app_setting::AppSetting;
use serde_json::{Value, json};

use crate::client::Call;
use crate::service::{App, Backing, Service};

const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";
const PROFILE: &str = "GET /v3/profile";

pub(super) async fn guarded(service: &Service) -> App {
    let shop = service.app("shop").await;
    service
        .context
        .store
        .control()
        .set_settings(shop.id, &[AppSetting::GuardAddresses(Some(true))], &Actor::System)
        .await
        .unwrap();
    shop
}

fn subscription(name: &str) -> Value {
    let endpoint = format!("https://fcm.googleapis.com/fcm/send/{name}");
    json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": P256DH, "auth": AUTH}})
}

pub(super) fn connect(service: &Service, app: &App, user: &str, device: &str, token: Option<&str>) -> Call {
    let mut body = json!({"deviceType": "android"});
    if let Some(token) = token {
        body["pushToken"] = json!(token);
    }
    service.of(app, user, "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", device).json(&body)
}

pub(super) fn subscribe(service: &Service, app: &App, user: &str, device: &str, name: &str) -> Call {
    service.of(app, user, &format!("POST /v3/devices/{device}/webPushSubscription")).json(&subscription(name))
}

/// Reads the user as the app's backend, and removes the timestamps.
pub(super) async fn read_user(service: &Service, app: &App, user: &str) -> Value {
    let mut user = service.by(app, &format!("GET /v3/users/{user}")).send().await.is(200);
    for device in user["devices"].as_array_mut().unwrap() {
        device.as_object_mut().unwrap().remove("connectedAt");
    }
    user.as_object_mut().unwrap().remove("createdAt");
    user
}

// One test for the whole attack, because each step depends on the steps before it.
#[allow(clippy::too_many_lines)]
#[tokio::test]
async fn a_caller_with_the_public_key_never_redirects_or_stops_another_users_push() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let start = json!({"email": "ada@example.com", "fcm": {"tokens": ["phone"]}, "apns": {"tokens": ["pad"]}, "note": "x"});
    service.by(&shop, "PUT /v3/users/ada").json(&start).send().await.is(200);
    let by_app = |what: &str| service.by(&shop, what).header("X-SERVICE-USER-ID", "ada");
    let laptop = "POST /v3/devices/laptop/webPushSubscription";
    by_app(laptop).json(&subscription("laptop")).send().await.is(200);
    let before = read_user(&service, &shop, "ada").await;

    let writes = [
        json!({"fcm": {"token": "mallory"}}),
        json!({"fcm": {"tokens": ["mallory"]}}),
        json!({"fcm": {"tokens": []}}),
        json!({"fcm": null}),
        json!({"apns": {"token": "pad"}}),
        json!({"fcm": {"tokens": (0..50).map(|n| format!("junk{n}")).collect::<Vec<_>>()}}),
    ];
    for body in &writes {
        for method in ["PUT", "PATCH"] {
            let call = service.of(&shop, "ada", &format!("{method} /v3/profile"));
            call.json(body).send().await.fails(403, "address_guarded");
        }
        let first = service.of(&shop, "eve", "PUT /v3/profile").json(body).send().await;
        first.fails(403, "address_guarded");
    }
    for operation in [
        json!({"op": "remove", "path": "/fcm"}),
        json!({"op": "remove", "path": "/fcm/tokens/0"}),
        json!({"op": "replace", "path": "/fcm/tokens/0", "value": "mallory"}),
        json!({"op": "add", "path": "/apns/tokens/-", "value": "mallory"}),
        json!({"op": "move", "from": "/fcm", "path": "/stolen"}),
        json!({"op": "copy", "from": "/fcm", "path": "/stolen"}),
        json!({"op": "copy", "from": "/note", "path": "/fcm"}),
        json!({"op": "copy", "from": "", "path": "/stolen"}),
        json!({"op": "test", "path": "/fcm/tokens/0", "value": "phone"}),
        json!({"op": "replace", "path": "", "value": {"fcm": {"tokens": ["mallory"]}}}),
        json!({"op": "replace", "path": "", "value": {}}),
    ] {
        let call = service.of(&shop, "ada", "PATCH /v3/profile").json(&json!([operation]));
        call.send().await.fails(403, "address_guarded");
    }
    for device in ["mallory", "laptop"] {
        connect(&service, &shop, "ada", device, Some("mallory")).send().await.fails(403, "address_guarded");
        subscribe(&service, &shop, "ada", device, "mallory").send().await.fails(403, "address_guarded");
        for what in ["webPushSubscription", "pushToken"] {
            let remove = service.of(&shop, "ada", &format!("DELETE /v3/devices/{device}/{what}"));
            remove.send().await.fails(403, "address_guarded");
        }
        let guessed =
            connect(&service, &shop, "ada", device, None).header("X-SERVICE-DEVICE-SECRET", "ds_guessed");
        guessed.send().await.fails(401, "invalid_device_secret");
    }
    // The attacker can still connect devices, but the devices that an authenticated caller connected stay connected.
    for number in 0..55 {
        let answer = connect(&service, &shop, "ada", &format!("junk{number}"), None).send().await.is(200);
        assert_eq!(answer["deviceSecret"], Value::Null);
    }
    let mut after = read_user(&service, &shop, "ada").await;
    let devices = after["devices"].as_array_mut().unwrap();
    assert_eq!(devices.len(), 50);
    devices.retain(|device| !device["deviceId"].as_str().unwrap().starts_with("junk"));
    assert_eq!(after, before);
    let seen = service.of(&shop, "ada", PROFILE).send().await.is(200);
    assert_eq!(seen, json!({"note": "x"}), "a caller without a proof sees no addresses");
    let written = service.of(&shop, "ada", "PUT /v3/profile").json(&json!({"name": "Ada"})).send().await;
    assert_eq!(written.is(200), json!({"note": "x", "name": "Ada"}));
    assert_eq!(read_user(&service, &shop, "ada").await["profile"]["email"], "ada@example.com");
    assert_eq!(service.context.store.directory().find_user(shop.id, "eve").await.unwrap(), None);
}

#[tokio::test]
async fn a_device_secret_changes_only_the_targets_of_its_device() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let answer = connect(&service, &shop, "install-1", "phone", Some("one")).send().await.is(200);
    let secret = answer["deviceSecret"].as_str().unwrap().to_owned();
    let again = connect(&service, &shop, "install-1", "phone", Some("two")).send().await;
    again.fails(403, "address_guarded");
    let signed = |call: Call| call.header("X-SERVICE-DEVICE-SECRET", &secret);
    let profile = async || read_user(&service, &shop, "install-1").await["profile"].clone();

    let next = signed(connect(&service, &shop, "install-1", "phone", Some("two"))).send().await.is(200);
    assert_eq!(next["deviceSecret"], Value::Null, "the secret is shown once");
    assert_eq!(profile().await, json!({"fcm": {"tokens": ["two"]}}));
    // The secret is valid only for this device of this user.
    for (user, device) in [("install-1", "other"), ("install-2", "phone")] {
        let call = signed(connect(&service, &shop, user, device, Some("three")));
        call.send().await.fails(401, "invalid_device_secret");
        let call = signed(subscribe(&service, &shop, user, device, "three"));
        call.send().await.fails(401, "invalid_device_secret");
    }
    // The device secret gives access neither to the profile nor to tokens of other devices.
    let put = service.of(&shop, "install-1", "PUT /v3/profile").json(&json!({"fcm": {"token": "three"}}));
    signed(put).send().await.fails(403, "address_guarded");
    service.by(&shop, "PUT /v3/users/ada").json(&json!({"fcm": {"token": "adas"}})).send().await.is(200);
    let taken = signed(connect(&service, &shop, "install-1", "phone", Some("adas"))).send().await;
    taken.fails(403, "address_guarded");

    let remove = || signed(service.of(&shop, "install-1", "DELETE /v3/devices/phone/pushToken"));
    remove().send().await.is(200);
    remove().send().await.fails(404, "not_found");
    assert_eq!(profile().await, json!({"fcm": {"tokens": []}}));

    // Web push subscriptions are guarded in the same way.
    let by_app = service.by(&shop, "POST /v3/devices/d/webPushSubscription?userIdentifier=ada");
    by_app.json(&subscription("adas")).send().await.is(200);
    signed(subscribe(&service, &shop, "install-1", "phone", "mine")).send().await.is(200);
    let stolen = signed(subscribe(&service, &shop, "install-1", "phone", "adas")).send().await;
    stolen.fails(403, "address_guarded");
    assert_eq!(read_user(&service, &shop, "ada").await["devices"][0]["webPush"], true);
    let remove = service.of(&shop, "install-1", "DELETE /v3/devices/phone/webPushSubscription");
    signed(remove).send().await.is(200);

    // The first write with a proof ends the secret and what it registered.
    signed(connect(&service, &shop, "install-1", "phone", Some("four"))).send().await.is(200);
    let put = json!({"fcm": {"tokens": ["proven"]}});
    service.by(&shop, "PUT /v3/users/install-1").json(&put).send().await.is(200);
    let call = signed(connect(&service, &shop, "install-1", "phone", Some("five")));
    call.send().await.fails(401, "invalid_device_secret");
    assert_eq!(profile().await, json!({"fcm": {"tokens": ["proven"]}}));
}

#[tokio::test]
async fn a_call_with_a_proof_invalidates_the_device_secret() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let answer = connect(&service, &shop, "install-1", "phone", None).send().await.is(200);
    let secret = answer["deviceSecret"].as_str().unwrap().to_owned();
    let signed = || {
        connect(&service, &shop, "install-1", "phone", Some("one")).header("X-SERVICE-DEVICE-SECRET", &secret)
    };
    signed().send().await.is(200);
    let connected = service.by(&shop, "POST /v3/sdk/connect?userIdentifier=install-1");
    let connected = connected.header("X-SERVICE-DEVICE-ID", "phone").json(&json!({"pushToken": "two"}));
    connected.send().await.is(200);
    signed().send().await.fails(401, "invalid_device_secret");
    let profile = read_user(&service, &shop, "install-1").await["profile"].clone();
    assert_eq!(
        profile,
        json!({"fcm": {"tokens": ["two"]}}),
        "no caller with a proof registered the first token"
    );
    let digests = "SELECT coalesce(proof_digest::text, 'none') FROM device";
    assert_eq!(service.rows(digests).await, ["none"]);
    let stored = service.rows("SELECT device::text FROM device").await.concat();
    assert!(!stored.contains(&secret));
}

#[tokio::test]
async fn an_app_with_open_addresses_accepts_tokens_with_the_public_key() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    for token in ["one", "two"] {
        let answer = connect(&service, &shop, "ada", "phone", Some(token)).send().await.is(200);
        assert_eq!(answer["deviceSecret"], Value::Null);
    }
    let profile = service.of(&shop, "ada", PROFILE).send().await.is(200);
    assert_eq!(profile, json!({"fcm": {"tokens": ["one", "two"]}}));
    service.of(&shop, "ada", "DELETE /v3/devices/phone/pushToken").send().await.is(200);
    let profile = service.of(&shop, "ada", PROFILE).send().await.is(200);
    assert_eq!(profile, json!({"fcm": {"tokens": ["one"]}}));
}
