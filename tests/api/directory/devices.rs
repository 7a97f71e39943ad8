//! `POST /v3/sdk/connect`.

use domain::DeviceType;
use serde_json::json;

use crate::service::{Backing, Service};

const CONNECT: &str = "POST /v3/sdk/connect";

#[tokio::test]
async fn connecting_creates_the_user_and_returns_the_app() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let category = json!({"identifier": "orders", "name": "Orders"});
    let category = service.by(&shop, "POST /v3/categories").json(&category).send().await.is(200);
    let connect = || service.of(&shop, "ada", CONNECT).header("X-SERVICE-DEVICE-ID", "d1");
    let answer = connect().json(&json!({"deviceType": "android", "pushToken": "t1"})).send().await.is(200);
    let expected = json!({
        "unreadCount": 0, "unseenCount": 0,
        "app": {
            "id": shop.id.to_string(), "name": "shop", "enableWebPush": false, "publicKey": null,
            "hideBranding": true, "channels": ["inApp"],
            "categories": [{"id": category["id"], "name": "Orders"}],
        },
        "deviceSecret": null,
    });
    assert_eq!(answer, expected);
    service.deliver(&shop, "ada", 2).await;
    let form = connect()
        .body("deviceType=ios&pushToken=t%2B2&pushProvider=apns", "application/x-www-form-urlencoded");
    assert_eq!(form.send().await.is(200)["unreadCount"], 2);
    let user = service.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap();
    let profile = json!({"fcm": {"tokens": ["t1"]}, "apns": {"tokens": ["t+2"]}});
    assert_eq!(serde_json::Value::Object(user.profile), profile);
}

#[tokio::test]
async fn every_problem_of_a_connection_is_named() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let nothing = service.of(&shop, "ada", CONNECT).json(&json!({})).send().await;
    nothing.has_problems(&[("X-SERVICE-DEVICE-ID", "required"), ("deviceType", "required")]);
    let connect = || service.of(&shop, "ada", CONNECT).header("X-SERVICE-DEVICE-ID", "d1");
    let wrong = connect().json(&json!({"deviceType": "fridge", "pushProvider": "post"})).send().await;
    wrong.has_problems(&[("deviceType", "unknown_value"), ("pushProvider", "unknown_value")]);
    let mistyped =
        connect().json(&json!({"deviceType": 7, "pushToken": [], "pushProvider": null})).send().await;
    mistyped.has_problems(&[("deviceType", "invalid_type"), ("pushToken", "invalid_type")]);
    let unreadable = connect().body("deviceType=%FF", "application/x-www-form-urlencoded").send().await;
    unreadable.has_problems(&[("", "malformed_form")]);
    connect().body("deviceType: ios", "text/plain").send().await.fails(415, "unsupported_media_type");
    assert_eq!(service.context.store.directory().find_user(shop.id, "ada").await.unwrap(), None);
}

#[tokio::test]
async fn connecting_by_the_app_needs_no_body() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let by_app = service.by(&shop, &format!("{CONNECT}?userIdentifier=ada")).header("X-ACME-DEVICE-ID", "d1");
    by_app.send().await.is(200);
    let named =
        service.by(&shop, CONNECT).header("X-SERVICE-USER-ID", "ada").header("X-SERVICE-DEVICE-ID", "d2");
    named.json(&json!({"deviceType": "ios"})).send().await.is(200);
    let again =
        service.by(&shop, &format!("{CONNECT}?userIdentifier=ada")).header("X-SERVICE-DEVICE-ID", "d2");
    again.json(&json!(null)).send().await.is(200);
    let store = &service.context.store;
    let ada = store.directory().find_user(shop.id, "ada").await.unwrap().unwrap();
    let devices = store.directory().list_devices(shop.id, ada.number).await.unwrap();
    let devices: Vec<_> = devices.iter().map(|one| (one.device_id.as_str(), one.device_type)).collect();
    assert_eq!(devices, [("d2", Some(DeviceType::Ios)), ("d1", None)]);
    let by_user = service.of(&shop, "ada", CONNECT).header("X-SERVICE-DEVICE-ID", "d1").send().await;
    by_user.has_problems(&[("deviceType", "required")]);
}

#[tokio::test]
async fn lengths_and_unknown_members_are_checked() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let (id, token) = ("d".repeat(256), "t".repeat(2049));
    let long = service.of(&shop, "ada", CONNECT).header("X-ACME-DEVICE-ID", &id);
    let long = long.json(&json!({"deviceType": "ios", "pushToken": token})).send().await;
    long.has_problems(&[("X-SERVICE-DEVICE-ID", "too_long"), ("pushToken", "too_long")]);
    let connect = || service.of(&shop, "ada", CONNECT).header("X-SERVICE-DEVICE-ID", "d1");
    let body = json!({"deviceType": "browser", "browserType": "firefox", "pushToken": "", "model": "x"});
    let strict = connect().header("Prefer", "handling=strict").json(&body).send().await;
    strict.has_problems(&[("model", "unknown_member")]);
    connect().json(&body).send().await.is(200);
    let ada = service.context.store.directory().find_user(shop.id, "ada").await.unwrap().unwrap();
    assert!(ada.profile.is_empty(), "an empty token counts as missing");
}
