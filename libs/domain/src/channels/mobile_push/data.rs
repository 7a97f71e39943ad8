use serde_json::Value;

use crate::content::Object;

/// Returns true if FCM reserves a key of its member `data`
/// (<https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages>).
#[must_use]
pub fn is_reserved_by_fcm(key: &str) -> bool {
    matches!(key, "from" | "message_type")
        || key.starts_with("google.")
        || key.starts_with("gcm.notification.")
}

/// Returns data in the form of FCM, which accepts only texts: other values become JSON text, and `null` is left out. Keys that FCM reserves
/// are dropped rather than refused, because the other channels accept them.
#[must_use]
pub fn as_texts(data: &Object) -> Object {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let allowed = data.iter().filter(|(key, _)| !is_reserved_by_fcm(key));
    allowed.filter_map(|(key, value)| Some((key.clone(), text(value)?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_keys_that_fcm_reserves_are_left_out() {
        let data = json!({
            "from": "x", "message_type": "x", "google.x": 1, "gcm.notification.title": "x",
            "googleMapsUrl": "https://maps.example", "gcmKey": 7, "google": true, "From": "y", "none": null,
        });
        let texts = as_texts(data.as_object().unwrap());
        let expected =
            json!({"googleMapsUrl": "https://maps.example", "gcmKey": "7", "google": "true", "From": "y"});
        assert_eq!(json!(texts), expected);
    }
}
