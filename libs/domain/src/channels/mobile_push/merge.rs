use serde_json::Value;

use crate::content::Object;

/// Objects are merged recursively. Any other value in `over` replaces the value in `onto`.
pub(super) fn merge(onto: &mut Object, over: &Object) {
    for (key, value) in over {
        match (onto.get_mut(key), value) {
            (Some(Value::Object(onto)), Value::Object(over)) => merge(onto, over),
            _ => {
                onto.insert(key.clone(), value.clone());
            }
        }
    }
}
