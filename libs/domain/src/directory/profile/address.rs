//! The addresses in a profile.

use serde_json::Value;

use super::tokens::{TOKEN_HOLDERS, tokens_in};
use crate::content::Object;
use crate::sms::number::is_e164;

/// Returns the profile's `email`, or the user's identifier if the profile has no key `email`. Returns None if that value is not
/// an email address.
#[must_use]
pub fn email<'a>(identifier: &'a str, profile: &'a Object) -> Option<&'a str> {
    match profile.get("email") {
        None => Some(identifier),
        Some(value) => value.as_str(),
    }
    .filter(|address| is_email(address))
}

/// Returns the phone number for SMS: `phoneNumber`, or `phone` if the profile has no key `phoneNumber`. Returns None if the
/// number is not in E.164 form.
#[must_use]
pub fn phone(profile: &Object) -> Option<&str> {
    let number = profile.get("phoneNumber").or_else(|| profile.get("phone"))?.as_str()?;
    is_e164(number).then_some(number)
}

/// Returns the mobile push targets, as `fcm:{token}` and `apns:{token}`.
pub fn push_targets(profile: &Object) -> impl Iterator<Item = String> {
    TOKEN_HOLDERS.iter().flat_map(|service| {
        let holder = profile.get(*service).and_then(Value::as_object);
        holder.map(tokens_in).unwrap_or_default().into_iter().map(move |token| format!("{service}:{token}"))
    })
}

/// Returns true if a text could be an email address: it has the form of one, keeps the length limits of RFC 5321, section
/// 4.5.3.1, and contains no character that could start a header or a second address. Only the provider checks the address
/// completely.
#[must_use]
pub fn is_email(address: &str) -> bool {
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
            other => panic!("{other} is not an object"),
        }
    }

    #[test]
    fn the_identifier_is_the_address_only_if_the_profile_has_none() {
        assert_eq!(email("ada@example.com", &Object::new()), Some("ada@example.com"));
        assert_eq!(email("ada@example.com", &object(json!({"email": "a@b.c"}))), Some("a@b.c"));
        assert_eq!(email("ada@example.com", &object(json!({"email": null}))), None);
        assert_eq!(email("ada", &Object::new()), None);
    }

    #[test]
    fn addresses_that_could_inject_headers_are_ignored() {
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
