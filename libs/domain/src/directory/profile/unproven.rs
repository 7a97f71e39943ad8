use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Author, Change, MAX_TARGET, merged, push_targets, remove_token};
use crate::Channel;
use crate::content::Object;

/// Keys whose value is a single address, with the prefix of the address in [`Unproven`].
const SINGLE: [(&str, &str); 3] = [("email", EMAIL), ("phoneNumber", SMS), ("phone", SMS)];
const EMAIL: &str = "email:";
const SMS: &str = "sms:";
const WEB_PUSH: &str = "webPush:";

/// Addresses that only callers without a proof have written: `email:{address}`, `sms:{number}`, `fcm:{token}`, `apns:{token}` and
/// `webPush:{endpoint}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Unproven(BTreeSet<String>);

impl Unproven {
    /// Updates the set after a change of the profile. A caller with a proof proves its own addresses; if `ends` is true as well, all other
    /// unproven addresses are removed from `after`. Addresses that a caller without a proof adds are unproven.
    #[must_use]
    pub fn changed(
        &self,
        (before, after): (&Object, &mut Object),
        changes: &[&Change],
        author: Author,
        ends: bool,
    ) -> Unproven {
        let mut unproven = self.0.clone();
        if author.has_proof() {
            for change in changes {
                let named = named(change);
                unproven.retain(|address| !named.contains(address));
            }
            if ends {
                unproven.iter().for_each(|address| remove(after, address));
                unproven.clear();
            }
        } else {
            let known = addresses(before);
            unproven.extend(addresses(after).into_iter().filter(|address| !known.contains(address)));
        }
        let kept = addresses(after);
        unproven.retain(|address| kept.contains(address));
        Unproven(unproven)
    }

    #[must_use]
    pub fn removed_from(&self, profile: &Object) -> Object {
        let mut profile = profile.clone();
        self.0.iter().for_each(|address| remove(&mut profile, address));
        profile
    }

    #[must_use]
    pub fn has_endpoint(&self, endpoint: &str) -> bool {
        self.0.contains(&format!("{WEB_PUSH}{endpoint}"))
    }

    pub fn insert(&mut self, address: String) {
        self.0.insert(address);
    }

    pub fn insert_endpoint(&mut self, endpoint: &str) {
        self.insert(format!("{WEB_PUSH}{endpoint}"));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Leaves out addresses that are too long to be used.
fn addresses(profile: &Object) -> BTreeSet<String> {
    let single = SINGLE.iter().filter_map(|(key, prefix)| {
        let address = profile.get(*key).and_then(Value::as_str)?;
        Some(format!("{prefix}{address}"))
    });
    single.chain(push_targets(profile)).filter(|address| address.len() <= MAX_TARGET).collect()
}

fn named(change: &Change) -> BTreeSet<String> {
    match change {
        Change::Merge(pairs) => {
            // Pairs with a reserved key or of a great size are refused elsewhere.
            merged(&Object::new(), pairs).map(|pairs| addresses(&pairs)).unwrap_or_default()
        }
        Change::Patch(patch) => {
            let mut texts = Vec::new();
            patch.values().for_each(|value| collect_texts(value, &mut texts));
            let prefixes = [EMAIL, SMS, "fcm:", "apns:"];
            texts.iter().flat_map(|text| prefixes.map(|prefix| format!("{prefix}{text}"))).collect()
        }
    }
}

/// Recursion is bounded: a value nests at most as deep as a request body may.
fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if text.len() <= MAX_TARGET => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(members) => members.values().for_each(|member| collect_texts(member, texts)),
        _ => {}
    }
}

fn remove(profile: &mut Object, address: &str) {
    for (key, prefix) in SINGLE {
        let Some(address) = address.strip_prefix(prefix) else { continue };
        if profile.get(key).and_then(Value::as_str) == Some(address) {
            profile.remove(key);
        }
    }
    remove_token(profile, address);
}

/// Returns true if the channel has an address that only a proof would make usable.
#[must_use]
pub fn lacks_proof(channel: Channel, unproven: &Unproven) -> bool {
    let prefixes: &[&str] = match channel {
        Channel::Email => &[EMAIL],
        Channel::Sms => &[SMS],
        Channel::MobilePush => &["fcm:", "apns:"],
        Channel::WebPush => &[WEB_PUSH],
        _ => &[],
    };
    unproven.0.iter().any(|address| prefixes.iter().any(|prefix| address.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Patch;
    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn set(addresses: &[&str]) -> Unproven {
        Unproven(addresses.iter().map(|address| (*address).to_owned()).collect())
    }

    /// Applies a change. Returns the profile and the unproven addresses afterwards.
    fn apply(
        (profile, unproven): (Value, &Unproven),
        change: &Change,
        author: Author,
        ends: bool,
    ) -> (Value, Unproven) {
        let before = object(&profile);
        let mut after = change.apply(&before, author).unwrap();
        let unproven = unproven.changed((&before, &mut after), &[change], author, ends);
        (Value::Object(after), unproven)
    }

    fn merge(pairs: &Value) -> Change {
        Change::Merge(object(pairs))
    }

    fn patch(operations: &Value) -> Change {
        let mut problems = Vec::new();
        let patch = Patch::read(operations.as_array().cloned().unwrap(), 100, true, &mut problems);
        assert_eq!(problems, []);
        Change::Patch(patch)
    }

    #[test]
    fn addresses_are_unproven_until_a_caller_with_a_proof_names_them() {
        let pairs = json!({"email": "a@b.c", "phone": "+4915112345678", "fcm": {"token": "t"}});
        let (profile, unproven) =
            apply((json!({}), &Unproven::default()), &merge(&pairs), Author::Claimed, false);
        assert_eq!(unproven, set(&["email:a@b.c", "fcm:t", "sms:+4915112345678"]));
        // The same number under another key stays unproven.
        let (profile, unproven) = apply(
            (profile, &unproven),
            &merge(&json!({"phoneNumber": "+4915112345678"})),
            Author::Claimed,
            false,
        );
        assert_eq!(unproven, set(&["email:a@b.c", "fcm:t", "sms:+4915112345678"]));
        let (profile, unproven) =
            apply((profile, &unproven), &merge(&json!({"email": "a@b.c"})), Author::User, false);
        assert_eq!(unproven, set(&["fcm:t", "sms:+4915112345678"]));
        let (_, unproven) =
            apply((profile, &unproven), &merge(&json!({"phone": null})), Author::Claimed, false);
        assert_eq!(unproven, set(&["fcm:t", "sms:+4915112345678"]), "phoneNumber still has it");
    }

    #[test]
    fn a_write_with_a_proof_ends_unproven_addresses_that_it_does_not_name() {
        let profile = json!({"email": "eve@b.c", "phone": "+1", "app": {"x": 1}, "fcm": {"tokens": ["eve", "ada"], "lang": "en"}});
        let unproven = set(&["email:eve@b.c", "fcm:eve", "sms:+1"]);
        let cases = [
            (
                merge(&json!({"name": "Ada"})),
                json!({"name": "Ada", "app": {"x": 1}, "fcm": {"tokens": ["ada"], "lang": "en"}}),
            ),
            (
                merge(&json!({"phone": "+1", "fcm": {"token": "new"}})),
                json!({"phone": "+1", "app": {"x": 1}, "fcm": {"tokens": ["ada", "new"], "lang": "en"}}),
            ),
            (
                patch(&json!([{"op": "replace", "path": "/email", "value": "eve@b.c"}])),
                json!({"email": "eve@b.c", "app": {"x": 1}, "fcm": {"tokens": ["ada"], "lang": "en"}}),
            ),
            (
                patch(
                    &json!([{"op": "test", "path": "/email", "value": "eve@b.c"}, {"op": "remove", "path": "/app"}]),
                ),
                json!({"fcm": {"tokens": ["ada"], "lang": "en"}}),
            ),
        ];
        for (change, expected) in cases {
            let (after, left) = apply((profile.clone(), &unproven), &change, Author::App, true);
            assert_eq!((after, left), (expected, Unproven::default()), "{change:?}");
        }
    }
}
