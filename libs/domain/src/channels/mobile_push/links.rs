//! Links in the members of a push that phones and browsers interpret, at any depth.

use serde_json::Value;

use crate::Problem;
use crate::content::Object;
use crate::link::{is_icon, is_link};

/// Members whose values phones and browsers open as links.
const LINKS: [&str; 6] = ["url", "link", "deeplink", "deep_link", "click_action", "action_url"];
/// Members whose values phones and browsers load as images.
const IMAGES: [&str; 3] = ["icon", "image", "badge"];

/// Reports each link and image, at any depth, that a client must not open.
pub fn check(path: &str, members: &Object, problems: &mut Vec<Problem>) {
    for (name, value) in members {
        let path = format!("{path}.{name}");
        let lower = name.to_ascii_lowercase();
        match value {
            Value::Object(inner) => check(&path, inner, problems),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(inner) = item.as_object() {
                        check(&format!("{path}[{index}]"), inner, problems);
                    }
                }
            }
            value if LINKS.contains(&lower.as_str()) && !is_sound_link(value) => {
                problems.push(problem(&path));
            }
            value if IMAGES.contains(&lower.as_str()) && !is_sound_icon(value) => {
                problems.push(problem(&path));
            }
            _ => {}
        }
    }
}

#[must_use]
pub fn is_sound_link(value: &Value) -> bool {
    value.as_str().is_none_or(is_link)
}

#[must_use]
pub fn is_sound_icon(value: &Value) -> bool {
    value.as_str().is_none_or(is_icon)
}

#[must_use]
pub fn problem(path: &str) -> Problem {
    let message = format!("{path} must be a relative or http(s) link, or have a scheme of your app");
    Problem::new(path, "invalid_link", message)
}
