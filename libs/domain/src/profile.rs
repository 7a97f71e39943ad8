//! A user's profile: how writes merge, and which addresses it holds.

use serde_json::Value;

use crate::Problem;
use crate::content::Object;

/// Largest profile, as JSON text, in bytes.
pub const MAX_PROFILE: usize = 64 * 1024;

/// Profile members that hold push tokens; they merge one level deeper.
const TOKEN_HOLDERS: [&str; 2] = ["fcm", "apns"];

/// Checks the types of the keys that the service reads itself, before pairs are merged. That they are plain JSON is
/// checked with the body they came in.
///
/// The reserved key `identifier` is reported apart (see [`names_identifier`]) since it has its own status.
pub fn check(path: &str, pairs: &Object, problems: &mut Vec<Problem>) {
    for (key, value) in pairs {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let text_expected = matches!(key.as_str(), "email" | "phoneNumber" | "phone");
        if text_expected && !(value.is_string() || value.is_null()) {
            problems.push(Problem::new(&at, "invalid_type", format!("{at} must be a string or null")));
        }
        if TOKEN_HOLDERS.contains(&key.as_str()) && !(value.is_object() || value.is_null()) {
            problems.push(Problem::new(&at, "invalid_type", format!("{at} must be an object with tokens")));
        }
    }
}

/// Whether the pairs try to set the reserved key.
#[must_use]
pub fn names_identifier(pairs: &Object) -> bool {
    pairs.contains_key("identifier")
}

/// Merges `pairs` onto `profile`: top-level keys replace, `fcm` and `apns` merge their members, where `token` is
/// appended to `tokens` and `tokens` are united.
pub fn merge(profile: &mut Object, pairs: Object) {
    for (key, value) in pairs {
        match value {
            Value::Object(update) if TOKEN_HOLDERS.contains(&key.as_str()) => {
                let slot = profile.entry(key).or_insert_with(|| Value::Object(Object::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Object::new());
                }
                if let Value::Object(holder) = slot {
                    merge_tokens(holder, update);
                }
            }
            value => {
                profile.insert(key, value);
            }
        }
    }
}

fn merge_tokens(holder: &mut Object, update: Object) {
    let mut tokens = tokens_in(holder);
    for (key, value) in update {
        let added = match (key.as_str(), value) {
            ("token", Value::String(token)) => vec![token],
            ("tokens", Value::Array(items)) => strings(&items),
            (_, value) => {
                holder.insert(key, value);
                continue;
            }
        };
        for token in added {
            if !token.is_empty() && !tokens.contains(&token) {
                tokens.push(token);
            }
        }
    }
    holder.insert("tokens".to_owned(), tokens.into());
}

fn tokens_in(holder: &Object) -> Vec<String> {
    holder.get("tokens").and_then(Value::as_array).map(|items| strings(items)).unwrap_or_default()
}

fn strings(items: &[Value]) -> Vec<String> {
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The address for email: the profile's, else the identifier where it is an address itself.
#[must_use]
pub fn email<'a>(identifier: &'a str, profile: &'a Object) -> Option<&'a str> {
    match profile.get("email") {
        None => Some(identifier),
        Some(value) => value.as_str(),
    }
    .filter(|address| is_email(address))
}

/// The number for SMS in E.164 form: `phoneNumber`, else `phone`.
#[must_use]
pub fn phone(profile: &Object) -> Option<&str> {
    let number = profile.get("phoneNumber").or_else(|| profile.get("phone"))?.as_str()?;
    let digits = number.strip_prefix('+')?;
    let well_formed = (7..=15).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    well_formed.then_some(number)
}

/// Push targets of phones, as `fcm:{token}` and `apns:{token}`.
pub fn push_targets(profile: &Object) -> impl Iterator<Item = String> {
    TOKEN_HOLDERS.iter().flat_map(|service| {
        let holder = profile.get(*service).and_then(Value::as_object);
        holder.map(tokens_in).unwrap_or_default().into_iter().map(move |token| format!("{service}:{token}"))
    })
}

// RFC 5321 §4.5.3.1 lengths; the provider judges the rest. No character that could open a header or a second address.
fn is_email(address: &str) -> bool {
    let forbidden =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, '<' | '>' | ',' | ';' | '"' | '(' | ')');
    address.len() <= 254
        && !address.chars().any(forbidden)
        && address.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty() && local.len() <= 64 && !domain.is_empty() && !domain.contains('@')
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(members) => members,
            other => panic!("{other} is no object"),
        }
    }

    #[test]
    fn merging_replaces_keys_and_unites_tokens() {
        let mut profile =
            object(json!({"name": "Ada", "fcm": {"tokens": ["a"], "lang": "en"}, "plan": {"x": 1}}));
        merge(
            &mut profile,
            object(json!({"name": null, "fcm": {"token": "b", "tokens": ["a", "c"]}, "plan": {"y": 2}})),
        );
        let expected =
            json!({"name": null, "fcm": {"tokens": ["a", "b", "c"], "lang": "en"}, "plan": {"y": 2}});
        let mut tokens = tokens_in(profile["fcm"].as_object().unwrap());
        tokens.sort();
        assert_eq!(tokens, ["a", "b", "c"]);
        profile["fcm"]["tokens"] = json!(tokens);
        assert_eq!(Value::Object(profile), expected);
    }

    #[test]
    fn the_identifier_serves_as_address_only_without_one_on_the_profile() {
        assert_eq!(email("ada@example.com", &Object::new()), Some("ada@example.com"));
        assert_eq!(email("ada@example.com", &object(json!({"email": "a@b.c"}))), Some("a@b.c"));
        assert_eq!(email("ada@example.com", &object(json!({"email": null}))), None);
        assert_eq!(email("ada", &Object::new()), None);
    }

    #[test]
    fn addresses_that_could_inject_are_none() {
        for bad in ["a@b.c\r\nBcc: x@y.z", "a@b.c, d@e.f", "<a@b.c>", "a b@c.d", "@b.c", "a@", "a@b@c"] {
            assert_eq!(email("x", &object(json!({"email": bad}))), None, "{bad}");
        }
    }

    #[test]
    fn phone_numbers_are_e164() {
        assert_eq!(phone(&object(json!({"phoneNumber": "+4915112345678"}))), Some("+4915112345678"));
        assert_eq!(phone(&object(json!({"phone": "+15005550006"}))), Some("+15005550006"));
        for bad in ["015112345678", "+0123456789", "+12 34567890", "+123456", "+1234567890123456"] {
            assert_eq!(phone(&object(json!({"phone": bad}))), None, "{bad}");
        }
    }

    #[test]
    fn every_token_is_a_target() {
        let profile = object(json!({"fcm": {"tokens": ["a", "b"]}, "apns": {"tokens": ["c"]}}));
        assert_eq!(push_targets(&profile).collect::<Vec<_>>(), ["fcm:a", "fcm:b", "apns:c"]);
    }
}
