//! Messages in the format of FCM (<https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages>).

use serde_json::{Value, json};

use super::data::{as_texts, is_reserved_by_fcm};
use super::merge::merge;
use super::message::Message;
use super::own;
use crate::content::Object;
use crate::excerpt::{Cut, Fitted, fitting};
use crate::size::json_size;
use crate::{Answer, Reason};

/// Size of the members `notification` and `data` together, in bytes.
const LARGEST: usize = 4_096;
/// Four weeks, in seconds.
const LONGEST_TTL: u64 = 28 * 24 * 3_600;

/// Builds the message for a device token, and cuts its body if it is too large. The error fails the delivery permanently: the message is
/// too large even without a body.
pub fn of(message: &Message, token: &str) -> Result<(Object, Option<Cut>), Answer> {
    let data = data(message);
    let size = |body: &str| json_size(&notification(message, body)) + json_size(&data);
    let fitted = fitting(message.body.clone().unwrap_or_default(), LARGEST, size);
    let Some(Fitted { text: body, cut }) = fitted else {
        let problem = format!("without any body, notification and data have more than {LARGEST} bytes");
        return Err(Answer::refused(Reason::TooLarge, "too_large", problem));
    };
    let mut made = Object::new();
    made.insert("token".to_owned(), token.into());
    if message.is_shown() {
        made.insert("notification".to_owned(), Value::Object(notification(message, &body)));
    }
    let parts = [
        ("data", data),
        ("android", android(message)),
        ("apns", apns(message)),
        ("webpush", webpush(message)),
    ];
    for (name, part) in parts {
        if !part.is_empty() {
            made.insert(name.to_owned(), Value::Object(part));
        }
    }
    Ok((made, cut))
}

fn notification(message: &Message, body: &str) -> Object {
    present([
        ("title", message.title.clone().map(Value::from)),
        ("body", Some(body).filter(|body| !body.is_empty()).map(Value::from)),
        ("image", message.options.image.clone().map(Value::from)),
    ])
}

fn data(message: &Message) -> Object {
    let mut given = message.data.clone();
    own::defend(&mut given, message);
    let mut data = present([
        ("deliveryId", Some(message.delivery.0.to_string().into())),
        ("url", message.url.clone().map(Value::from)),
        ("icon", message.icon.clone().map(Value::from)),
    ]);
    data.extend(as_texts(&given));
    data
}

/// Returns the send's overrides for one platform. In the members of `data`, keys that Tidings sets or FCM reserves are removed.
fn overlay(over: &Object, data: &[&str], message: &Message) -> Object {
    let mut over = over.clone();
    for name in data {
        if let Some(Value::Object(data)) = over.get_mut(*name) {
            own::defend(data, message);
            data.retain(|key, _| !is_reserved_by_fcm(key));
        }
    }
    over
}

fn android(message: &Message) -> Object {
    let options = &message.options;
    let shown = present([
        ("sound", options.sound.clone().filter(|sound| !sound.is_empty()).map(Value::from)),
        ("click_action", options.category.clone().map(Value::from)),
        ("tag", options.collapse_id.clone().map(Value::from)),
    ]);
    let mut android = present([
        ("priority", Some(if options.is_urgent { "HIGH" } else { "NORMAL" }.into())),
        ("ttl", message.lifetime().map(|seconds| format!("{}s", seconds.min(LONGEST_TTL)).into())),
        ("collapse_key", options.collapse_id.clone().map(Value::from)),
        (
            "notification",
            Some(Value::Object(shown)).filter(|shown| *shown != json!({}) && message.is_shown()),
        ),
    ]);
    merge(&mut android, &overlay(&options.android, &["data"], message));
    android
}

/// Builds the part for iOS apps that use FCM.
fn apns(message: &Message) -> Object {
    let options = &message.options;
    let end = message.expires_at.map(|end| end.millis().div_euclid(1_000).to_string());
    let headers = present([
        ("apns-priority", (!options.is_urgent).then(|| "5".into())),
        ("apns-expiration", end.map(Value::from)),
        ("apns-collapse-id", options.collapse_id.clone().map(Value::from)),
    ]);
    let is_mutable = options.mutable_content || options.image.is_some();
    let sound = options.sound.clone().unwrap_or_else(|| "default".to_owned());
    let aps = present([
        ("sound", Some(sound).filter(|sound| !sound.is_empty() && message.is_shown()).map(Value::from)),
        ("badge", options.badge.map(Value::from)),
        ("thread-id", options.thread_id.clone().map(Value::from)),
        ("category", options.category.clone().map(Value::from)),
        ("interruption-level", options.interruption_level.clone().map(Value::from)),
        ("mutable-content", is_mutable.then(|| json!(1))),
        ("content-available", options.content_available.then(|| json!(1))),
    ]);
    let full = |part: Object| Some(part).filter(|part| !part.is_empty()).map(Value::Object);
    let payload = full(aps).map(|aps| json!({"aps": aps}));
    let mut apns = present([("headers", full(headers)), ("payload", payload)]);
    // If the override has a member `aps`, the whole override is the payload, as in the kind `apns`.
    if options.apns.contains_key("aps") {
        let mut payload = options.apns.clone();
        own::defend(&mut payload, message);
        merge(&mut apns, &present([("payload", Some(Value::Object(payload)))]));
    } else {
        merge(&mut apns, &overlay(&options.apns, &["payload"], message));
    }
    apns
}

fn webpush(message: &Message) -> Object {
    let options = &message.options;
    let link = message.url.as_deref().filter(|url| url.starts_with("https://"));
    let mut webpush = present([("fcm_options", link.map(|link| json!({"link": link})))]);
    merge(&mut webpush, &overlay(&options.webpush, &["data"], message));
    webpush
}

fn present<const N: usize>(members: [(&str, Option<Value>); N]) -> Object {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
