//! Tests of the content of pushes.

use std::time::Duration;

use domain::Outcome;
use domain::content::PushContent;
use serde_json::{Value, json};

use crate::fixture::{ANDROID, NOW, PHONE, PushWorld, assert_sent, content, last, with_options};

const ID: &str = "00000000-0000-0000-0000-000000000007";

/// Options that both APNs and FCM support, each in its own format.
fn common() -> Value {
    json!({
        "subtitle": "Order 7", "sound": "bell.caf", "badge": 3, "threadId": "orders", "collapseId": "order-7",
        "category": "PARCEL", "interruptionLevel": "time-sensitive", "image": "https://example.com/p.png",
        "priority": "normal", "ttl": 60, "contentAvailable": true, "title": "Another title",
    })
}

#[tokio::test]
async fn a_plain_message_is_an_alert_with_a_sound() {
    let pusher = PushWorld::apns().await;
    assert_sent(&pusher.send(PHONE).await);
    let alert = json!({"title": "Your parcel", "body": "It is on its way."});
    let payload = json!({
        "aps": {"alert": alert, "sound": "default"},
        "deliveryId": ID, "url": "https://example.com/parcels/7", "data": {"parcel": 7},
    });
    assert_eq!(last(pusher.server.outbox()), payload);
    let headers = pusher.server.outbox().captures()[0].summary.headers.clone();
    let header = |name: &str| headers.get(name).map(|values| values[0].clone());
    assert_eq!(header("apns-topic").as_deref(), Some("com.example.demo"));
    assert_eq!(header("apns-push-type").as_deref(), Some("alert"));
    assert_eq!(header("apns-priority").as_deref(), Some("10"));
    assert_eq!((header("apns-expiration"), header("apns-collapse-id")), (None, None));
}

#[tokio::test]
async fn options_of_a_send_reach_apns() {
    let pusher = PushWorld::apns().await;
    let mut job = pusher.job(PHONE, with_options(&common()));
    job.expires_at = Some(NOW + Duration::from_secs(3_600));
    assert_sent(&pusher.send_job(&job, NOW).await);
    let aps = json!({
        "alert": {"title": "Another title", "subtitle": "Order 7", "body": "It is on its way."},
        "sound": "bell.caf", "badge": 3, "thread-id": "orders", "category": "PARCEL",
        "interruption-level": "time-sensitive", "mutable-content": 1, "content-available": 1,
    });
    assert_eq!(last(pusher.server.outbox())["aps"], aps);
    let headers = pusher.server.outbox().captures()[0].summary.headers.clone();
    assert_eq!(headers["apns-priority"], ["5"]);
    assert_eq!(headers["apns-collapse-id"], ["order-7"]);
    let end = (NOW.millis() / 1_000 + 60).to_string();
    assert_eq!(headers["apns-expiration"], [end], "the ttl ends before the send expires");
}

#[tokio::test]
async fn members_for_apns_override_ours() {
    let pusher = PushWorld::apns().await;
    let with_headers = json!({"apns": {
        "headers": {"apns-priority": "1", "apns-topic": "com.example.demo.voip", "apns-push-type": "voip"},
        "payload": {"aps": {"alert": {"loc-key": "PARCEL"}}, "custom": [1]},
    }});
    assert_sent(&pusher.send_job(&pusher.job(PHONE, with_options(&with_headers)), NOW).await);
    let payload = last(pusher.server.outbox());
    assert_eq!(payload["aps"]["alert"]["loc-key"], "PARCEL");
    assert_eq!((&payload["aps"]["alert"]["title"], &payload["custom"]), (&json!("Your parcel"), &json!([1])));
    assert_eq!(pusher.server.outbox().captures()[0].summary.headers["apns-push-type"], ["voip"]);

    let payload_alone = json!({"apns": {"aps": {"sound": {"critical": 1, "name": "x", "volume": 1.0}}}});
    assert_sent(&pusher.send_job(&pusher.job(PHONE, with_options(&payload_alone)), NOW).await);
    assert_eq!(last(pusher.server.outbox())["aps"]["sound"]["critical"], 1);
}

#[tokio::test]
async fn a_push_without_visible_content_is_a_background_push() {
    let pusher = PushWorld::apns().await;
    let silent = PushContent {
        title: None,
        body: None,
        ..with_options(&json!({"contentAvailable": true, "sound": ""}))
    };
    assert_sent(&pusher.send_job(&pusher.job(PHONE, silent), NOW).await);
    let capture = pusher.server.outbox().captures().remove(0);
    assert_eq!(last(pusher.server.outbox())["aps"], json!({"content-available": 1}));
    assert_eq!(capture.summary.headers["apns-push-type"], ["background"]);
    assert_eq!(capture.summary.headers["apns-priority"], ["5"]);
}

#[tokio::test]
async fn invalid_options_fail_permanently() {
    let apns = PushWorld::apns().await;
    for options in [
        json!({"badge": "three"}),
        json!({"priority": "urgent"}),
        json!({"apns": []  , "ttl": "soon"}),
        json!({"collapseId": "x".repeat(65)}),
        json!({"apns": {"headers": {"apns-topic": "com.example.other"}}}),
        json!({"apns": {"headers": {"apns-priority": "1\r\nauthorization: x"}}}),
    ] {
        let answer = apns.send_job(&apns.job(PHONE, with_options(&options)), NOW).await;
        assert_eq!((&answer.outcome, answer.code.as_str()), (&Outcome::Failed, "options"), "{options}");
    }
    assert_eq!(apns.server.server().requests(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_cut_to_fit() {
    let (apns, fcm) = (PushWorld::apns().await, PushWorld::fcm().await);
    let long = PushContent { body: Some("Grüße \"an\" alle. ".repeat(2_000)), ..content() };
    for answer in [
        apns.send_job(&apns.job(PHONE, long.clone()), NOW).await,
        fcm.send_job(&fcm.job(ANDROID, long.clone()), NOW).await,
    ] {
        assert_sent(&answer);
        assert!(answer.message.starts_with("Tidings cut the body from 38000 to "), "{}", answer.message);
    }
    let size = apns.server.outbox().captures()[0].raw.len();
    assert!((4_000..=4_096).contains(&size), "{size}");
    assert!(last(apns.server.outbox())["aps"]["alert"]["body"].as_str().unwrap().ends_with('…'));
    let message = &last(fcm.server.outbox())["message"];
    let size = message["notification"].to_string().len() + message["data"].to_string().len();
    assert!((4_000..=4_096).contains(&size), "{size}");

    let data = json!({"much": "x".repeat(5_000)}).as_object().unwrap().clone();
    let much = PushContent { data, ..long };
    for answer in [
        apns.send_job(&apns.job(PHONE, much.clone()), NOW).await,
        fcm.send_job(&fcm.job(ANDROID, much), NOW).await,
    ] {
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "too_large"));
    }
}

#[tokio::test]
async fn options_of_a_send_reach_fcm_with_data_as_strings() {
    let pusher = PushWorld::fcm().await;
    let data = json!({"parcel": 7, "paid": true, "note": "hi", "items": [{"id": 1}], "none": null});
    let content = PushContent { data: data.as_object().unwrap().clone(), ..with_options(&common()) };
    assert_sent(&pusher.send_job(&pusher.job(ANDROID, content), NOW).await);
    let end = (NOW.millis() / 1_000 + 60).to_string();
    let message = json!({
        "token": ANDROID,
        "notification": {"title": "Another title", "body": "It is on its way.", "image": "https://example.com/p.png"},
        "data": {
            "deliveryId": ID, "url": "https://example.com/parcels/7",
            "parcel": "7", "paid": "true", "note": "hi", "items": r#"[{"id":1}]"#,
        },
        "android": {
            "priority": "NORMAL", "ttl": "60s", "collapse_key": "order-7",
            "notification": {"sound": "bell.caf", "click_action": "PARCEL", "tag": "order-7"},
        },
        "apns": {
            "headers": {"apns-priority": "5", "apns-expiration": end, "apns-collapse-id": "order-7"},
            "payload": {"aps": {
                "sound": "bell.caf", "badge": 3, "thread-id": "orders", "category": "PARCEL",
                "interruption-level": "time-sensitive", "mutable-content": 1, "content-available": 1,
            }},
        },
        "webpush": {"fcm_options": {"link": "https://example.com/parcels/7"}},
    });
    assert_eq!(last(pusher.server.outbox()), json!({"message": message}));
}

#[tokio::test]
async fn members_for_android_apns_and_webpush_override_ours() {
    let pusher = PushWorld::fcm().await;
    let options = json!({
        "android": {"priority": "NORMAL", "notification": {"channel_id": "parcels"}},
        "apns": {"payload": {"aps": {"badge": 9}}},
        "webpush": {"headers": {"Urgency": "high"}},
    });
    assert_sent(&pusher.send_job(&pusher.job(ANDROID, with_options(&options)), NOW).await);
    let message = &last(pusher.server.outbox())["message"];
    assert_eq!(message["android"], json!({"priority": "NORMAL", "notification": {"channel_id": "parcels"}}));
    assert_eq!(message["apns"]["payload"]["aps"], json!({"sound": "default", "badge": 9}));
    assert_eq!(message["webpush"]["headers"], json!({"Urgency": "high"}));
}

#[tokio::test]
async fn a_key_that_fcm_reserves_is_left_out_and_similar_keys_are_sent() {
    let pusher = PushWorld::fcm().await;
    let data = json!({
        "from": "x", "message_type": "x", "google.sent_time": "x", "gcm.notification.n": "x", "googleMapsUrl": "m", "gcmKey": "k",
    });
    let data = data.as_object().unwrap().clone();
    assert_sent(&pusher.send_job(&pusher.job(ANDROID, PushContent { data, ..content() }), NOW).await);
    let sent = last(pusher.server.outbox())["message"]["data"].clone();
    let expected = json!({
        "deliveryId": ID, "url": "https://example.com/parcels/7", "googleMapsUrl": "m", "gcmKey": "k",
    });
    assert_eq!(sent, expected);
}

/// Overrides that try to replace the id, the link or the icon of the message.
fn forging(url: &str) -> [Value; 4] {
    let forged = json!({"deliveryId": "forged", "url": url, "icon": "https://evil.example/i.png"});
    [
        json!({"apns": {"payload": forged}}),
        json!({"apns": {"aps": {}, "deliveryId": "forged", "url": url}}),
        json!({"android": {"data": forged}}),
        json!({"webpush": {"data": forged, "fcm_options": {"link": url}}}),
    ]
}

#[tokio::test]
async fn data_of_a_send_never_replaces_the_link_or_the_id_of_a_push() {
    let pusher = PushWorld::fcm().await;
    let forged =
        json!({"deliveryId": "forged", "url": "javascript:alert(1)", "icon": "data:text/html,x", "n": 7});
    let icon = Some("https://example.com/i.png".to_owned());
    let data = forged.as_object().unwrap().clone();
    let job = pusher.job(ANDROID, PushContent { data: data.clone(), icon, ..content() });
    assert_sent(&pusher.send_job(&job, NOW).await);
    let reported = json!({
        "deliveryId": ID, "url": "https://example.com/parcels/7", "icon": "https://example.com/i.png", "n": "7",
    });
    assert_eq!(last(pusher.server.outbox())["message"]["data"], reported);
    // If the send has no `url`, a link in its data stays, provided that clients may open it.
    let job = pusher.job(ANDROID, PushContent { data, url: None, ..content() });
    assert_sent(&pusher.send_job(&job, NOW).await);
    let text = last(pusher.server.outbox()).to_string();
    assert!(!text.contains("javascript") && !text.contains("forged"), "{text}");
    let link = json!({"url": "myapp://parcels/7"}).as_object().unwrap().clone();
    assert_sent(
        &pusher.send_job(&pusher.job(ANDROID, PushContent { data: link, url: None, ..content() }), NOW).await,
    );
}

#[tokio::test]
async fn options_for_apns_and_fcm_cannot_contain_a_forged_id_or_a_script() {
    let (apple, google) = (PushWorld::apns().await, PushWorld::fcm().await);
    for options in forging("https://evil.example/") {
        let content = || PushContent { icon: Some("/i.png".to_owned()), ..with_options(&options) };
        assert_sent(&apple.send_job(&apple.job(PHONE, content()), NOW).await);
        assert_sent(&google.send_job(&google.job(ANDROID, content()), NOW).await);
        for pushed in [last(apple.server.outbox()), last(google.server.outbox())] {
            let mut text = pushed.to_string();
            text = text.replace(r#""link":"https://evil.example/""#, "");
            assert!(
                !text.contains("forged") && !text.contains("evil") && !text.contains("text/html"),
                "{text}"
            );
        }
    }
    for script in ["javascript:alert(1)", " Java\tScript:alert(1)", "data:text/html,x"] {
        for options in forging(script) {
            let content = || PushContent { url: None, ..with_options(&options) };
            let google = google.send_job(&google.job(ANDROID, content()), NOW).await;
            assert_eq!((&google.outcome, google.code.as_str()), (&Outcome::Failed, "link"), "{options}");
            let apple = apple.send_job(&apple.job(PHONE, content()), NOW).await;
            assert_eq!((&apple.outcome, apple.code.as_str()), (&Outcome::Failed, "link"), "{options}");
        }
        let image = with_options(&json!({"image": script}));
        assert_eq!(apple.send_job(&apple.job(PHONE, image), NOW).await.outcome, Outcome::Failed);
    }
}
