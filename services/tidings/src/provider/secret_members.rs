//! The secret members of a provider's settings, by their dotted names.

use serde_json::{Map, Value};

/// The member, where it is there, be it null.
pub(super) fn find<'a>(settings: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        None => settings.get(name),
        Some((outer, rest)) => find(settings.get(outer)?.as_object()?, rest),
    }
}

/// Takes the member out.
pub(super) fn take(settings: &mut Map<String, Value>, name: &str) -> Option<Value> {
    match name.split_once('.') {
        None => settings.remove(name),
        Some((outer, rest)) => take(settings.get_mut(outer)?.as_object_mut()?, rest),
    }
}

/// Puts a member where it belongs. False: the object that it stands in is not there, and it was left out.
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

/// As [`put`], making the objects that it stands in.
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
