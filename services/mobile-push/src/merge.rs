//! Laying an app's own members over those that we make.

use domain::content::Object;
use serde_json::Value;

/// Lays `over` onto `onto`: objects member by member, everything else in whole.
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
