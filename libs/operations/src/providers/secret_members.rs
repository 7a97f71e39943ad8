//! Access to the secret members of a provider's settings by dotted names, such as `dkim.privateKey`.

use serde_json::{Map, Value};

/// Returns the member if it exists, even if it is null.
pub(super) fn find<'a>(settings: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        None => settings.get(name),
        Some((outer, rest)) => find(settings.get(outer)?.as_object()?, rest),
    }
}

pub(super) fn take(settings: &mut Map<String, Value>, name: &str) -> Option<Value> {
    match name.split_once('.') {
        None => settings.remove(name),
        Some((outer, rest)) => take(settings.get_mut(outer)?.as_object_mut()?, rest),
    }
}

/// Inserts a member. If the object that would contain it is missing, inserts nothing and returns false.
pub(super) fn put(settings: &mut Map<String, Value>, name: &str, value: Value) -> bool {
    match name.split_once('.') {
        None => {
            settings.insert(name.to_owned(), value);
            true
        }
        Some((outer, rest)) => match settings.get_mut(outer) {
            Some(Value::Object(inner)) => put(inner, rest, value),
            _ => false,
        },
    }
}

/// Inserts a member, and creates the objects that contain it if they are missing.
pub(super) fn put_deep(secrets: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => drop(secrets.insert(name.to_owned(), value)),
        Some((outer, rest)) => {
            let inner = secrets.entry(outer).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put_deep(inner, rest, value);
            }
        }
    }
}
