//! Merging of an app's overrides into the members that Tidings creates.

use domain::content::Object;
use serde_json::Value;

/// Merges `over` into `onto`. Objects are merged recursively; any other value replaces the existing one.
pub(crate) fn merge(onto: &mut Object, over: &Object) {
    for (key, value) in over {
        match (onto.get_mut(key), value) {
            (Some(Value::Object(onto)), Value::Object(over)) => merge(onto, over),
            _ => {
                onto.insert(key.clone(), value.clone());
            }
        }
    }
}
