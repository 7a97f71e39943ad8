//! Targets that a caller with only the public key registered before the user's first call with a proof.

use domain::SigningAlgorithm;
use serde_json::{Value, json};
use store::control::switch::Switch;

use super::guarded_targets::{connect, guarded, read_user, subscribe};
use crate::client::Call;
use crate::service::{App, Backing, Service};
use crate::signer::{Signer, claims};

const SECRET: &str = "X-SERVICE-DEVICE-SECRET";

/// Connects a device with a push token and a browser as a stranger, and returns the device's secret.
async fn occupy(service: &Service, app: &App, user: &str) -> String {
    let token = format!("stranger-{user}");
    let answer = connect(service, app, user, "theirs", Some(&token)).send().await.is(200);
    let secret = answer["deviceSecret"].as_str().unwrap().to_owned();
    subscribe(service, app, user, "theirs", &token).header(SECRET, &secret).send().await.is(200);
    secret
}

/// Asserts that nothing is left of what the stranger registered.
async fn assert_ended(service: &Service, app: &App, user: &str, secret: &str) {
    let known = read_user(service, app, user).await;
    assert!(!known["profile"].to_string().contains("stranger"), "{user}: {known}");
    let devices = known["devices"].as_array().unwrap();
    assert!(
        devices.iter().all(|device| device["deviceId"] != "theirs" || device["webPush"] == false),
        "{known}"
    );
    let again = connect(service, app, user, "theirs", Some("again")).header(SECRET, secret);
    again.send().await.fails(401, "invalid_device_secret");
}

#[tokio::test]
async fn the_first_write_with_a_proof_ends_what_a_stranger_registered() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    service.by(&shop, "PUT /v3/topics/news").json(&json!({"open": true})).send().await.is(200);
    let by_user = |user: &str, what: &str| {
        service.call(what).header("Authorization", &format!("Bearer {}", signer.token(&claims(&shop, user))))
    };
    type Write<'a> = Box<dyn Fn(&str) -> Call + 'a>;
    let writes: Vec<Write<'_>> = vec![
        Box::new(|user| service.by(&shop, &format!("PUT /v3/users/{user}")).json(&json!({"name": "Ada"}))),
        Box::new(|user| service.by(&shop, &format!("PUT /v3/users/{user}"))),
        Box::new(|user| {
            service.by(&shop, "POST /v3/users/bulk").json(&json!([{"identifier": user, "name": "Ada"}]))
        }),
        Box::new(|user| by_user(user, "PUT /v3/profile").json(&json!({"name": "Ada"}))),
        Box::new(|user| {
            by_user(user, "PATCH /v3/profile").json(&json!([{"op": "add", "path": "/name", "value": "Ada"}]))
        }),
        Box::new(|user| {
            let call = by_user(user, "POST /v3/sdk/connect").header("X-SERVICE-DEVICE-ID", "mine");
            call.json(&json!({"deviceType": "ios", "pushToken": "mine"}))
        }),
        Box::new(|user| by_user(user, "PUT /v3/topics/news/subscription")),
        Box::new(|user| by_user(user, "PATCH /v3/preferences").json(&json!({"preference": []}))),
        Box::new(|user| {
            service.by(&shop, "POST /v3/topics/news/subscriptions").json(&json!({"add": [user]}))
        }),
    ];
    for (number, write) in writes.iter().enumerate() {
        let user = format!("user-{number}");
        let secret = occupy(&service, &shop, &user).await;
        write(&user).send().await.is(200);
        assert_ended(&service, &shop, &user, &secret).await;
    }
}

#[tokio::test]
async fn a_target_that_the_first_proof_names_stays_without_the_secret() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let secret = occupy(&service, &shop, "ada").await;
    let token = json!({"fcm": {"token": "stranger-ada"}});
    service.by(&shop, "PUT /v3/users/ada").json(&token).send().await.is(200);
    let known = read_user(&service, &shop, "ada").await;
    assert_eq!(known["profile"], json!({"fcm": {"tokens": ["stranger-ada"]}}));
    let again = connect(&service, &shop, "ada", "theirs", Some("again")).header(SECRET, &secret);
    again.send().await.fails(401, "invalid_device_secret");
}

#[tokio::test]
async fn secure_mode_ends_the_unproven_targets_of_its_app_alone() {
    let service = Service::start_with(Backing::Nothing).await;
    let (shop, bank) = (guarded(&service).await, service.app("bank").await);
    let control = service.context.store.control();
    control.set_switches(bank.id, &[Switch::GuardAddresses(true)], "test").await.unwrap();
    let secret = occupy(&service, &shop, "ada").await;
    occupy(&service, &bank, "ada").await;
    service.by(&shop, "PUT /v3/users/bob").json(&json!({"fcm": {"token": "bobs"}})).send().await.is(200);
    control.set_switches(shop.id, &[Switch::SecureMode(true)], "test").await.unwrap();
    control.set_switches(shop.id, &[Switch::SecureMode(false)], "test").await.unwrap();
    assert_eq!(read_user(&service, &shop, "bob").await["profile"], json!({"fcm": {"tokens": ["bobs"]}}));
    assert!(read_user(&service, &bank, "ada").await["profile"].to_string().contains("stranger-ada"));
    assert_eq!(read_user(&service, &shop, "ada").await["profile"], json!({"fcm": {"tokens": []}}));
    let digest = service.context.store.directory().device_secret(shop.id, "ada", "theirs").await.unwrap();
    assert_eq!(digest, None, "{secret} is invalid");
}

#[tokio::test]
async fn a_connect_that_races_the_first_proof_leaves_nothing() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    for round in 0..30 {
        let user = format!("user-{round}");
        let put = service.by(&shop, &format!("PUT /v3/users/{user}")).json(&json!({"name": "Ada"}));
        let stranger = connect(&service, &shop, &user, "theirs", Some("stranger"));
        let (proven, _) = tokio::join!(put.send(), stranger.send());
        proven.is(200);
        let known = read_user(&service, &shop, &user).await;
        assert!(!known["profile"].to_string().contains("stranger"), "{known}");
    }
}

#[tokio::test]
async fn a_send_that_demands_proven_targets_skips_others_with_a_reason() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let provider = "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
        SELECT id, 'push', 'mobilePush', 'fcm', 1, true, '{}' FROM app RETURNING identifier";
    service.rows(provider).await;
    occupy(&service, &shop, "eve").await;
    service.by(&shop, "PUT /v3/users/ada").json(&json!({"fcm": {"token": "adas"}})).send().await.is(200);
    let decided = async |proven: bool| {
        let send = json!({"notification": {"title": "Your code"}, "sendTo": {"recipients": ["ada", "eve"]},
            "provenTargets": proven, "override": {"channels": ["mobilePush"]}});
        let answer = service.by(&shop, "POST /v3/notifications?dryRun=true").json(&send).send().await.is(200);
        let rows = answer["data"].as_array().unwrap().iter().filter(|row| row["channel"] == "mobilePush");
        rows.map(|row| (row["status"].clone(), row["reason"].clone())).collect::<Vec<_>>()
    };
    let queued = (json!("queued"), Value::Null);
    assert_eq!(decided(false).await, [queued.clone(), queued.clone()]);
    assert_eq!(decided(true).await, [queued, (json!("skipped"), json!("unproven_target"))]);
}
