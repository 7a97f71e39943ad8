//! Targets that a caller with only the public key registered before the user's first call with a proof.

use std::time::Duration;

use domain::app_setting::AppSetting;
use domain::{Actor, SigningAlgorithm};
use serde_json::{Value, json};
use service_kit::clock;
use store::directory::device::unproven::UnprovenDevice;
use testkit::eventually;

use super::guarded_targets::{connect, guarded, read_user, subscribe};
use crate::client::Call;
use crate::service::{App, Backing, SOON, Service};
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
async fn an_inbox_write_with_a_proof_ends_them_and_a_read_or_a_write_without_one_does_not() {
    let service = Service::start().await;
    let shop = guarded(&service).await;
    let signer = Signer::create(&service, &shop, SigningAlgorithm::Es256).await;
    let writes = [
        ("POST /v3/notifications/{id}/click", Value::Null),
        ("DELETE /v3/notifications/{id}/reads", Value::Null),
        ("PUT /v3/notifications/{id}/views", Value::Null),
        ("PUT /v3/notifications/{id}/archive", Value::Null),
        ("PUT /v3/notifications/{id}/snooze", json!({"until": clock::now() + Duration::from_secs(3600)})),
        ("PUT /v3/notifications/{id}/state", json!({"state": "done"})),
        ("DELETE /v3/notifications/{id}", Value::Null),
        ("POST /v3/notifications/bulk", json!({"change": "read"})),
        ("POST /v3/notifications/markAllNotificationsAsSeen", Value::Null),
        ("POST /v3/notifications/markAllNotificationsAsRead", Value::Null),
        ("POST /v3/notifications/markAllNotificationsAsDeleted", Value::Null),
    ];
    for (number, (write, body)) in writes.iter().enumerate() {
        let user = format!("user-{number}");
        let secret = occupy(&service, &shop, &user).await;
        let known = service.context.store.directory().find_user(shop.id, &user).await.unwrap().unwrap();
        let delivered = async || {
            let before = service.list(&shop, &user, "").await["pagination"]["totalCount"].as_i64().unwrap();
            service.publish_item_to(&shop, known.number, "x").await;
            eventually(SOON, "the item is listed", async || {
                let list = service.list(&shop, &user, "").await;
                (list["pagination"]["totalCount"] == before + 1).then(|| list["data"][0]["id"].clone())
            })
            .await
        };
        let id = delivered().await;
        let call = |what: &str, by: Call| {
            let mut body = body.clone();
            if what.ends_with("bulk") {
                body["ids"] = json!([id]);
            }
            if body.is_null() { by } else { by.json(&body) }
        };
        let path = write.replace("{id}", &id.to_string());
        let token = format!("Bearer {}", signer.token(&claims(&shop, &user)));
        let before = read_user(&service, &shop, &user).await;
        service.call("GET /v3/notifications").header("Authorization", &token).send().await.is(200);
        let seen = service.of(&shop, &user, "POST /v3/notifications/markAllNotificationsAsSeen");
        assert_eq!(seen.send().await.status / 100, 2);
        assert_eq!(read_user(&service, &shop, &user).await, before, "{write}");
        if write.ends_with("AsSeen") {
            delivered().await;
        }
        let answer = call(write, service.call(&path).header("Authorization", &token)).send().await;
        assert_eq!(answer.status / 100, 2, "{write}: {}", answer.body);
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
    control.set_settings(bank.id, &[AppSetting::GuardAddresses(Some(true))], &Actor::System).await.unwrap();
    let secret = occupy(&service, &shop, "ada").await;
    occupy(&service, &bank, "ada").await;
    service.by(&shop, "PUT /v3/users/bob").json(&json!({"fcm": {"token": "bobs"}})).send().await.is(200);
    control.set_settings(shop.id, &[AppSetting::SecureMode(true)], &Actor::System).await.unwrap();
    control.set_settings(shop.id, &[AppSetting::SecureMode(false)], &Actor::System).await.unwrap();
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

#[tokio::test]
async fn a_device_secret_of_an_erased_user_is_worthless_for_the_user_created_next() {
    let service = Service::start().await;
    let shop = guarded(&service).await;
    for (number, by_stranger) in [true, false].into_iter().enumerate() {
        let user = format!("user-{number}");
        let secret = occupy(&service, &shop, &user).await;
        service.by(&shop, &format!("DELETE /v3/users/{user}")).send().await.is(202);
        if by_stranger {
            // Another device of the same name creates the user again, and gets a secret of its own.
            let again = connect(&service, &shop, &user, "theirs", Some("new-phone"));
            let fresh = again.send().await.is(200)["deviceSecret"].as_str().unwrap().to_owned();
            assert_ne!(fresh, secret);
        } else {
            let token = json!({"fcm": {"token": "new-phone"}});
            service.by(&shop, &format!("PUT /v3/users/{user}")).json(&token).send().await.is(200);
        }
        let before = read_user(&service, &shop, &user).await;
        assert!(before["profile"].to_string().contains("new-phone"), "{before}");
        let replace = connect(&service, &shop, &user, "theirs", Some("again")).header(SECRET, &secret);
        replace.send().await.fails(401, "invalid_device_secret");
        let browser = subscribe(&service, &shop, &user, "theirs", "again").header(SECRET, &secret);
        assert_eq!(browser.send().await.status, 401);
        let remove = service.of(&shop, &user, "DELETE /v3/devices/theirs/pushToken").header(SECRET, &secret);
        assert_eq!(remove.send().await.status, 401);
        assert_eq!(read_user(&service, &shop, &user).await, before);
    }
}

#[tokio::test]
async fn secure_mode_that_races_a_connect_leaves_no_unproven_target_whichever_commits_first() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let control = service.context.store.control();
    let mut connected = 0;
    for round in 0..20 {
        let device = UnprovenDevice {
            device_id: "theirs",
            device_type: None,
            push_target: Some("fcm:stranger"),
            secret: None,
        };
        let user = format!("user-{round}");
        // Directly in the store, because a gateway knows the switch some seconds later.
        let directory = service.context.store.directory();
        let stranger = directory.connect_unproven(shop.id, &user, device, b"digest");
        let secure = control.set_settings(shop.id, &[AppSetting::SecureMode(true)], &Actor::System);
        let (stranger, secure) = if round % 2 == 0 {
            tokio::join!(stranger, secure)
        } else {
            let (secure, stranger) = tokio::join!(secure, stranger);
            (stranger, secure)
        };
        assert!(secure.unwrap());
        connected += usize::from(stranger.is_ok());
        let left = "SELECT identifier FROM app_user WHERE profile::text LIKE '%stranger%' OR unproven <> '[]'
            UNION ALL SELECT device_id FROM device WHERE proof_digest IS NOT NULL OR push_target IS NOT NULL";
        assert_eq!(service.rows(left).await, Vec::<String>::new(), "round {round}: {stranger:?}");
        control.set_settings(shop.id, &[AppSetting::SecureMode(false)], &Actor::System).await.unwrap();
    }
    println!("the connect committed first in {connected} of 20 rounds");
}

#[tokio::test]
async fn proven_targets_hold_beside_the_settings_of_a_category() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = guarded(&service).await;
    let provider = "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
        SELECT id, 'push', 'mobilePush', 'fcm', 1, true, '{}' FROM app RETURNING identifier";
    service.rows(provider).await;
    let mut ids = Vec::new();
    for (name, critical) in [("codes", true), ("news", false)] {
        let category = json!({"identifier": name, "name": name, "critical": critical});
        let created = service.by(&shop, "POST /v3/categories").json(&category).send().await.is(200);
        ids.push(created["id"].clone());
    }
    occupy(&service, &shop, "eve").await;
    service.by(&shop, "PUT /v3/users/ada").json(&json!({"fcm": {"token": "adas"}})).send().await.is(200);
    let off = ids
        .iter()
        .map(|id| json!({"categoryId": id, "channels": [{"channel": "mobilePush", "enabled": false}]}));
    let off = json!({"preference": off.collect::<Vec<_>>()});
    service.of(&shop, "eve", "PATCH /v3/preferences").json(&off).send().await.is(200);
    let decided = async |category: &str, proven: bool| {
        let send = json!({"notification": {"title": "Your code", "category": category}, "provenTargets": proven,
            "sendTo": {"recipients": ["ada", "eve"]}, "override": {"channels": ["mobilePush"]}});
        let answer = service.by(&shop, "POST /v3/notifications?dryRun=true").json(&send).send().await.is(200);
        let rows = answer["data"].as_array().unwrap().iter().filter(|row| row["channel"] == "mobilePush");
        rows.map(|row| row["reason"].as_str().unwrap_or("queued").to_owned()).collect::<Vec<_>>()
    };
    // A critical category ignores preferences, but not the demand for proven targets.
    assert_eq!(decided("codes", false).await, ["queued", "queued"]);
    assert_eq!(decided("codes", true).await, ["queued", "unproven_target"]);
    assert_eq!(decided("news", false).await, ["queued", "preference_off"]);
    let both = decided("news", true).await;
    assert!(
        both[0] == "queued" && ["preference_off", "unproven_target"].contains(&both[1].as_str()),
        "{both:?}"
    );
}
