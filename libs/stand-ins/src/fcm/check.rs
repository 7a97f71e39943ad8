use hyper::Response;
use hyper::body::Bytes;
use serde_json::{Map, Value};

use super::{ERRORS, refusal};

/// Maximum size of `notification` and `data` together, in bytes.
const LARGEST: usize = 4_096;

const MESSAGE: &[&str] = &["token", "notification", "data", "android", "apns", "webpush", "fcm_options"];
const NOTIFICATION: &[&str] = &["title", "body", "image"];
const ANDROID: &[&str] = &[
    "collapse_key",
    "priority",
    "ttl",
    "restricted_package_name",
    "data",
    "notification",
    "fcm_options",
    "direct_boot_ok",
];
const APNS: &[&str] = &["headers", "payload", "fcm_options", "live_activity_token"];
const WEBPUSH: &[&str] = &["headers", "data", "notification", "fcm_options"];

pub(super) fn refused(body: &Value) -> Option<Response<Bytes>> {
    let mut wrong = Vec::new();
    let empty = Map::new();
    let body = body.as_object().unwrap_or(&empty);
    unknown("", body, &["message", "validate_only"], &mut wrong);
    let message = body.get("message").and_then(Value::as_object).unwrap_or(&empty);
    unknown("message", message, MESSAGE, &mut wrong);
    let part = |name: &str| message.get(name).and_then(Value::as_object).unwrap_or(&empty);
    unknown("message.notification", part("notification"), NOTIFICATION, &mut wrong);
    unknown("message.android", part("android"), ANDROID, &mut wrong);
    unknown("message.apns", part("apns"), APNS, &mut wrong);
    unknown("message.webpush", part("webpush"), WEBPUSH, &mut wrong);
    strings("message.notification", part("notification"), &mut wrong);
    strings("message.data", part("data"), &mut wrong);
    for (name, of) in [("apns", part("apns")), ("webpush", part("webpush"))] {
        let headers = of.get("headers").and_then(Value::as_object).unwrap_or(&empty);
        strings(&format!("message.{name}.headers"), headers, &mut wrong);
    }
    android(part("android"), &mut wrong);
    for key in part("data").keys() {
        if matches!(key.as_str(), "from" | "message_type")
            || key.starts_with("google.")
            || key.starts_with("gcm.notification.")
        {
            wrong.push(format!("message.data.{key}"));
        }
    }
    let size: usize = ["notification", "data"]
        .iter()
        .filter_map(|name| message.get(*name))
        .map(|part| part.to_string().len())
        .sum();
    if size > LARGEST {
        wrong.push("message".to_owned());
    }
    if !wrong.is_empty() {
        let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
        return Some(refusal(400, "INVALID_ARGUMENT", &wrong));
    }
    refused_token(message.get("token").and_then(Value::as_str).unwrap_or_default())
}

fn refused_token(token: &str) -> Option<Response<Bytes>> {
    if let Some((status, code)) = ERRORS.iter().find(|(_, code)| *code == token) {
        return Some(refusal(*status, code, &[]));
    }
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':');
    if token.len() >= 8 && token.bytes().all(is_sound) {
        None
    } else {
        Some(refusal(400, "INVALID_ARGUMENT", &["message.token"]))
    }
}

fn android(android: &Map<String, Value>, wrong: &mut Vec<String>) {
    let text = |name: &str| android.get(name).map(|value| value.as_str().unwrap_or("?"));
    if text("priority").is_some_and(|priority| !matches!(priority, "HIGH" | "NORMAL" | "high" | "normal")) {
        wrong.push("message.android.priority".to_owned());
    }
    let is_duration = |text: &str| {
        let seconds = text.strip_suffix('s').and_then(|number| number.parse::<f64>().ok());
        seconds.is_some_and(|seconds| (0.0..=2_419_200.0).contains(&seconds))
    };
    if text("ttl").is_some_and(|ttl| !is_duration(ttl)) {
        wrong.push("message.android.ttl".to_owned());
    }
    if text("collapse_key").is_some_and(|key| key == "?") {
        wrong.push("message.android.collapse_key".to_owned());
    }
}

fn unknown(path: &str, members: &Map<String, Value>, known: &[&str], wrong: &mut Vec<String>) {
    wrong.extend(
        members.keys().filter(|key| !known.contains(&key.as_str())).map(|key| format!("{path}.{key}")),
    );
}

fn strings(path: &str, members: &Map<String, Value>, wrong: &mut Vec<String>) {
    let others = members.iter().filter(|(_, value)| !value.is_string());
    wrong.extend(others.map(|(key, _)| format!("{path}.{key}")));
}
