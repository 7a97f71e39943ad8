//! The keys of a profile that messages are addressed by: an app can keep them from callers who prove nothing.

use crate::content::Object;

/// Keys that hold an address, so that writing them redirects a user's messages.
pub const ADDRESS_KEYS: [&str; 3] = ["email", "phoneNumber", "phone"];

/// Whether merging `pairs` onto a profile writes an address.
#[must_use]
pub fn is_among(pairs: &Object) -> bool {
    ADDRESS_KEYS.iter().any(|key| pairs.contains_key(*key))
}

/// Whether changing what a JSON Pointer (RFC 6901) leads to writes an address. The empty pointer leads to the whole
/// profile, and with it to its addresses.
///
/// Of the operations of a JSON Patch, `add`, `remove`, `replace` and `copy` change what `path` leads to, and `move`
/// what `from` leads to as well.
#[must_use]
pub fn is_at(pointer: &str) -> bool {
    // No escape sequence stands for a letter, so an address key can be spelled in one way.
    match pointer.strip_prefix('/') {
        Some(path) => path.split('/').next().is_some_and(|key| ADDRESS_KEYS.contains(&key)),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pairs_and_pointers_that_write_an_address_are_told() {
        for (pairs, expected) in [
            (json!({}), false),
            (json!({"name": "Ada", "emails": 1, "Email": 1, "fcm": {"email": 1}}), false),
            (json!({"email": null}), true),
            (json!({"name": "Ada", "phone": "+1"}), true),
            (json!({"phoneNumber": "+1"}), true),
        ] {
            assert_eq!(is_among(pairs.as_object().unwrap()), expected, "{pairs}");
        }
        for (pointer, expected) in [
            ("", true),
            ("/email", true),
            ("/phone/0", true),
            ("/phoneNumber/", true),
            ("/", false),
            ("/emails", false),
            ("/plan/email", false),
            ("//email", false),
            ("/e~0mail", false),
        ] {
            assert_eq!(is_at(pointer), expected, "{pointer:?}");
        }
    }
}
