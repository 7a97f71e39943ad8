use serde_json::{Value, json};

use super::tokens::TOKEN_HOLDERS;
use crate::Problem;
use crate::body::{Described, ObjectSchema, Presence, Schemas, named};
use crate::content::Object;

/// A profile must not contain this key, because it could be mistaken for the user's identifier, which cannot be changed.
pub(super) const RESERVED_KEY: &str = "identifier";

/// Key that only the app's backend may write.
pub const APP_KEY: &str = "app";

const ADDRESS_KEYS: [(&str, &str); 3] = [
    ("email", "Address for the channel `email`."),
    ("phoneNumber", "Phone number for the channel `sms`, in E.164 format."),
    ("phone", "Alias of `phoneNumber`."),
];

/// Names of the push services of [`TOKEN_HOLDERS`].
const PUSH_SERVICES: [&str; 2] = ["Firebase Cloud Messaging", "Apple's push service"];

/// Key-value pairs of a profile, with the keys that [`check`] checks.
#[derive(Debug)]
pub struct ProfileSchema;

impl Described for ProfileSchema {
    fn schema(schemas: &mut Schemas) -> Value {
        named(schemas, "Profile", |_| {
            let about = "Key-value pairs of a profile, at most 64 KiB in total. Any key is allowed; the service itself uses \
                the keys listed here.\n`null` is stored like any other value.";
            let mut pairs = ObjectSchema::new(&[about]);
            for (key, about) in ADDRESS_KEYS {
                pairs.add(key, Presence::Optional, &[about], json!({"type": "string"}));
            }
            for (key, service) in TOKEN_HOLDERS.into_iter().zip(PUSH_SERVICES) {
                let about = format!("Tokens of {service}, for `mobilePush`.");
                pairs.add(key, Presence::Optional, &[&about], tokens());
            }
            let mut schema = pairs.finish();
            schema["example"] =
                json!({"email": "ada@example.com", "phoneNumber": "+4915112345678", "name": "Ada"});
            schema
        })
    }
}

fn tokens() -> Value {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let about = "Tokens to add to those that the profile already has.";
    let mut tokens = ObjectSchema::new(&["Push tokens."]);
    tokens.add("tokens", Presence::Optional, &[about], list);
    tokens.add("token", Presence::Optional, &["One token to add."], json!({"type": "string"}));
    tokens.finish()
}

/// Checks the keys that Tidings reads itself: each must have the right type, and no address may contain a control character. The reserved
/// key is not reported, because writing it is a [`Refusal`](super::Refusal) with its own HTTP status.
pub fn check(path: &str, pairs: &Object, problems: &mut Vec<Problem>) {
    let within = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, _) in ADDRESS_KEYS {
        if let Some(value) = pairs.get(key) {
            check_text(&within(key), value, problems);
        }
    }
    for key in TOKEN_HOLDERS {
        if let Some(value) = pairs.get(key) {
            check_holder(&within(key), value, problems);
        }
    }
}

fn check_holder(at: &str, holder: &Value, problems: &mut Vec<Problem>) {
    match holder {
        Value::Null => {}
        Value::Object(members) => {
            if let Some(token) = members.get("token") {
                check_text(&format!("{at}.token"), token, problems);
            }
            if let Some(tokens) = members.get("tokens") {
                check_tokens(&format!("{at}.tokens"), tokens, problems);
            }
        }
        _ => {
            problems.push(Problem::new(at, "invalid_type", format!("{at} must be an object with tokens")));
        }
    }
}

fn check_tokens(at: &str, tokens: &Value, problems: &mut Vec<Problem>) {
    match tokens {
        Value::Null => {}
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let broken = items.iter().position(|item| item.as_str().is_some_and(has_control));
            if let Some(index) = broken {
                problems.push(control_character(&format!("{at}[{index}]")));
            }
        }
        _ => {
            problems.push(Problem::new(at, "invalid_type", format!("{at} must be an array of strings")));
        }
    }
}

// In an email, a control character such as a line break could start another header or address.
fn check_text(at: &str, value: &Value, problems: &mut Vec<Problem>) {
    match value {
        Value::Null => {}
        Value::String(text) if has_control(text) => problems.push(control_character(at)),
        Value::String(_) => {}
        _ => problems.push(Problem::new(at, "invalid_type", format!("{at} must be a string or null"))),
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn control_character(at: &str) -> Problem {
    Problem::new(at, "invalid_character", format!("{at} must not contain control characters"))
}

/// True for addresses and push tokens, to which an app can restrict access.
pub(super) fn is_address(key: &str) -> bool {
    ADDRESS_KEYS.iter().any(|(known, _)| *known == key) || TOKEN_HOLDERS.contains(&key)
}

pub(super) fn holds_address(profile: &Object) -> bool {
    profile.keys().any(|key| is_address(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_that_the_service_reads_has_its_type() {
        let cases = [
            (json!({"email": null, "phone": null, "fcm": null, "apns": {}}), None),
            (json!({"email": "no address at all", "phoneNumber": ""}), None),
            (json!({"fcm": {"token": null, "tokens": null, "lang": 7}}), None),
            (json!({"email": ["a@b.c"]}), Some(("p.email", "invalid_type"))),
            (json!({"phone": 4915112345678_i64}), Some(("p.phone", "invalid_type"))),
            (json!({"email": "a@b.c\r\nBcc: x@y.z"}), Some(("p.email", "invalid_character"))),
            (json!({"phoneNumber": "+49\u{7f}"}), Some(("p.phoneNumber", "invalid_character"))),
            (json!({"apns": ["a"]}), Some(("p.apns", "invalid_type"))),
            (json!({"fcm": {"token": 7}}), Some(("p.fcm.token", "invalid_type"))),
            (json!({"fcm": {"tokens": "a"}}), Some(("p.fcm.tokens", "invalid_type"))),
            (json!({"fcm": {"tokens": ["a", 7]}}), Some(("p.fcm.tokens", "invalid_type"))),
            (json!({"apns": {"tokens": ["a", "b\n"]}}), Some(("p.apns.tokens[1]", "invalid_character"))),
        ];
        for (pairs, expected) in cases {
            let mut problems = Vec::new();
            check("p", pairs.as_object().unwrap(), &mut problems);
            let found: Vec<_> = problems.iter().map(|found| (found.field.as_str(), found.code)).collect();
            assert_eq!(found, Vec::from_iter(expected), "{pairs}");
        }
    }
}
