use serde_json::Value;

use crate::Problem;
use crate::content::Object;

/// Headers that a send may override, unlike `apns-id` and the credential.
pub const OPEN_HEADERS: [&str; 5] =
    ["apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id", "apns-topic"];
/// Length in bytes.
pub const MAX_COLLAPSE_ID: usize = 64;
/// Largest payload of any push (a VoIP push), in bytes.
pub const MAX_PAYLOAD: usize = 5_120;

/// Length in bytes, for headers other than the collapse id.
const MAX_VALUE: usize = 255;

/// Returns the member `payload`, or the whole object if it has a member `aps`.
#[must_use]
pub fn payload(apns: &Object) -> Option<&Object> {
    if apns.contains_key("aps") { Some(apns) } else { apns.get("payload").and_then(Value::as_object) }
}

#[must_use]
pub fn headers(apns: &Object) -> Option<&Object> {
    apns.get("headers").and_then(Value::as_object)
}

#[must_use]
pub fn header_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub fn check_headers(path: &str, headers: &Object, problems: &mut Vec<Problem>) {
    for name in OPEN_HEADERS {
        let Some(value) = headers.get(name) else { continue };
        if let Some(demand) = demand(name, &header_text(value)) {
            let path = format!("{path}.{name}");
            problems.push(Problem::new(&path, "invalid_header", format!("{path} {demand}")));
        }
    }
}

/// Returns true if a provider with this topic may send pushes with the topic `named`: its own, or one that begins with it.
#[must_use]
pub fn serves_topic(topic: &str, named: &str) -> bool {
    named.strip_prefix(topic).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn demand(name: &str, value: &str) -> Option<&'static str> {
    let is_plain =
        (1..=MAX_VALUE).contains(&value.len()) && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_number = || value.len() <= 18 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_type = || value.bytes().all(|byte| byte.is_ascii_lowercase());
    match name {
        _ if !is_plain => Some("must have 1 to 255 printable ASCII characters"),
        "apns-priority" if !matches!(value, "1" | "5" | "10") => Some("must be 1, 5 or 10"),
        "apns-expiration" if !is_number() => Some("must be a time in whole seconds since 1970"),
        "apns-collapse-id" if value.len() > MAX_COLLAPSE_ID => Some("must have at most 64 bytes"),
        "apns-push-type" if !is_type() => Some("must be a type of push, such as alert or background"),
        _ => None,
    }
}
