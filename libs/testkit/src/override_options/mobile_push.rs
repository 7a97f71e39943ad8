//! `override.channel.mobilePush`. The good topics belong to a provider with the topic `com.example.demo`.

use serde_json::{Value, json};

use super::OptionValues;

#[allow(clippy::too_many_lines)]
pub(super) fn values() -> Vec<OptionValues> {
    let long = || json!("x".repeat(2_049));
    let text = |name| (name, vec![json!("x"), json!(""), json!(null)], vec![json!(1), long()]);
    let flag = |name| (name, vec![json!(true), json!(false)], vec![json!("true"), json!(1)]);
    let links = || vec![json!("/a"), json!("https://x.example/a"), json!("shop-app://a")];
    let scripts = || vec![json!("javascript:alert(1)"), json!("data:text/html,x"), json!(1)];
    let header = |name: &str, value: Value| json!({"headers": {name: value}});
    vec![
        ("title", vec![json!("x"), json!("")], vec![json!(1), json!("x".repeat(1_025))]),
        (
            "body",
            vec![json!("x"), json!("x".repeat(64 * 1024))],
            vec![json!([]), json!("x".repeat(64 * 1024 + 1))],
        ),
        ("url", links(), scripts()),
        ("icon", links(), vec![json!("javascript:alert(1)"), json!(1)]),
        ("image", links(), scripts()),
        text("subtitle"),
        text("sound"),
        text("threadId"),
        text("category"),
        text("interruptionLevel"),
        (
            "collapseId",
            vec![json!("x".repeat(64)), json!("")],
            vec![json!("x".repeat(65)), json!("é"), json!("a\r\nb")],
        ),
        ("priority", vec![json!("high"), json!("normal")], vec![json!("urgent"), json!(10)]),
        ("badge", vec![json!(0), json!(7.0), json!(-1)], vec![json!("7"), json!(7.5)]),
        (
            "ttl",
            vec![json!(0), json!(60), json!(4_000_000_000_u64)],
            vec![json!(-1), json!("60"), json!(1.5)],
        ),
        flag("mutableContent"),
        flag("contentAvailable"),
        (
            "data",
            vec![
                json!({"from": "x", "message_type": 1, "google.x": 1, "gcm.notification.y": 1}),
                json!({"googleMapsUrl": "m", "gcmKey": "k", "google": 1, "nested": {"a": [1, "\"quoted\""]}, "none": null}),
                json!({"deliveryId": "x", "url": "/a", "icon": "bell"}),
                json!({"x": "x".repeat(3_500)}),
            ],
            vec![
                json!(1),
                json!({"url": "javascript:x"}),
                json!({"icon": "data:text/html,x"}),
                json!({"x": "x".repeat(4_096)}),
                json!({"x": vec!["\""; 1_000]}),
            ],
        ),
        (
            "android",
            vec![json!({"priority": "NORMAL", "notification": {"channel_id": "x"}, "data": {"from": "x"}})],
            vec![
                json!(1),
                json!({"notification": {"click_action": "javascript:x"}}),
                json!({"data": {"url": "vbscript:x"}}),
            ],
        ),
        (
            "webpush",
            vec![json!({"headers": {"Urgency": "high"}})],
            vec![json!("x"), json!({"fcm_options": {"link": "data:x"}})],
        ),
        (
            "apns",
            vec![
                json!({"aps": {"badge": 1}}),
                json!({"payload": {"aps": {"badge": 1}, "x": "x".repeat(3_000)}}),
                header("apns-priority", json!(5)),
                header("apns-expiration", json!("0")),
                header("apns-collapse-id", json!("x")),
                header("apns-push-type", json!("liveactivity")),
                header("apns-topic", json!("com.example.demo.voip")),
                header("apns-id", json!("ignored")),
            ],
            vec![
                json!(1),
                json!({"aps": {"x": "x".repeat(5_200)}}),
                json!({"payload": {"link": "javascript:x"}}),
                header("apns-priority", json!(7)),
                header("apns-expiration", json!("tomorrow")),
                header("apns-collapse-id", json!("x".repeat(65))),
                header("apns-push-type", json!("a b")),
                header("apns-topic", json!("a\r\nb")),
            ],
        ),
    ]
}
