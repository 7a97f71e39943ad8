use serde_json::Value;

use super::tokens::{TOKEN_HOLDERS, tokens_in};
use crate::content::Object;
use crate::{EmailAddress, PhoneNumber, Problem};

/// Reason why a profile has no address for a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    Absent,
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenEmail<'a> {
    pub address: EmailAddress,
    pub written: &'a str,
}

/// Returns the profile's `email`, or the user's identifier if the profile has no key `email`. An identifier that is not an address is not
/// malformed, but absent.
pub fn email<'a>(identifier: &'a str, profile: &'a Object) -> Result<WrittenEmail<'a>, NoAddress> {
    let (written, otherwise) = match profile.get("email") {
        None => (identifier, NoAddress::Absent),
        Some(value) => (named(value)?, NoAddress::Malformed),
    };
    EmailAddress::parse(written).map(|address| WrittenEmail { address, written }).map_err(|_| otherwise)
}

/// Returns `phoneNumber`, or `phone` if the profile has no key `phoneNumber`.
pub fn phone(profile: &Object) -> Result<PhoneNumber, NoAddress> {
    let value = profile.get("phoneNumber").or_else(|| profile.get("phone")).ok_or(NoAddress::Absent)?;
    PhoneNumber::parse(named(value)?).map_err(|_| NoAddress::Malformed)
}

fn named(value: &Value) -> Result<&str, NoAddress> {
    value.as_str().filter(|text| !text.trim().is_empty()).ok_or(NoAddress::Absent)
}

/// Reports malformed addresses in `pairs`, whose location is `path`. Such pairs are stored, but nothing can be sent to the address.
#[must_use]
pub fn malformed(path: &str, pairs: &Object) -> Vec<Problem> {
    let within = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let demand = |key: &str| {
        let text = named(pairs.get(key)?).ok()?;
        match key {
            "email" => EmailAddress::parse(text).err().map(|problem| problem.to_string()),
            _ => PhoneNumber::parse(text).err().map(|problem| problem.to_string()),
        }
    };
    let problem = |key| {
        let at = within(key);
        demand(key).map(|demand| Problem::new(&at, "invalid_address", format!("{at} {demand}")))
    };
    ["email", "phoneNumber", "phone"].into_iter().filter_map(problem).collect()
}

/// Mobile push targets, as `fcm:{token}` and `apns:{token}`.
pub fn push_targets(profile: &Object) -> impl Iterator<Item = String> {
    TOKEN_HOLDERS.iter().flat_map(|service| {
        let holder = profile.get(*service).and_then(Value::as_object);
        holder.map(tokens_in).unwrap_or_default().into_iter().map(move |token| format!("{service}:{token}"))
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

    fn email_of(profile: Value) -> Result<String, NoAddress> {
        email("ada@example.com", &object(profile)).map(|found| found.address.to_string())
    }

    #[test]
    fn the_identifier_is_the_address_only_if_the_profile_has_none() {
        assert_eq!(email_of(json!({})), Ok("ada@example.com".to_owned()));
        assert_eq!(email_of(json!({"email": "a@b.c"})), Ok("a@b.c".to_owned()));
        assert_eq!(email_of(json!({"email": null})), Err(NoAddress::Absent));
        assert_eq!(email("ada", &Object::new()), Err(NoAddress::Absent));
        assert_eq!(email("ada@", &Object::new()), Err(NoAddress::Absent));
    }

    #[test]
    fn addresses_that_could_inject_headers_are_malformed() {
        for bad in ["a@b.c\r\nBcc: x@y.z", "a@b.c, d@e.f", "<a@b.c>", "a b@c.d", "@b.c", "a@", "a@b@c"] {
            assert_eq!(email_of(json!({"email": bad})), Err(NoAddress::Malformed), "{bad}");
        }
    }

    #[test]
    fn a_malformed_address_is_told_apart_from_an_absent_one() {
        assert_eq!(email_of(json!({"email": " ada@x.example "})), Ok("ada@x.example".to_owned()));
        assert_eq!(email_of(json!({"email": "Ada <ada@x.example>"})), Err(NoAddress::Malformed));
        assert_eq!(email_of(json!({"email": " "})), Err(NoAddress::Absent));
        let number = |profile| phone(&object(profile)).map(|number| number.to_string());
        assert_eq!(number(json!({"phoneNumber": "+49 151 12345678"})), Ok("+4915112345678".to_owned()));
        assert_eq!(number(json!({"phone": "+15005550006"})), Ok("+15005550006".to_owned()));
        assert_eq!(number(json!({"phone": "0151 12345678"})), Err(NoAddress::Malformed));
        assert_eq!(number(json!({"phoneNumber": null, "phone": "+15005550006"})), Err(NoAddress::Absent));
        assert_eq!(number(json!({})), Err(NoAddress::Absent));
    }

    #[test]
    fn every_malformed_address_of_a_write_is_a_problem_with_its_field() {
        let pairs =
            object(json!({"email": "te..st@x.example", "phoneNumber": "0151", "phone": "+49 151 12345678"}));
        let problems = malformed("profile", &pairs);
        let found: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
        assert_eq!(found, [("profile.email", "invalid_address"), ("profile.phoneNumber", "invalid_address")]);
        assert_eq!(malformed("", &object(json!({"email": "", "phone": null}))), []);
    }

    #[test]
    fn every_token_is_a_target() {
        let profile = object(json!({"fcm": {"tokens": ["a", "b"]}, "apns": {"tokens": ["c"]}}));
        assert_eq!(push_targets(&profile).collect::<Vec<_>>(), ["fcm:a", "fcm:b", "apns:c"]);
    }
}
