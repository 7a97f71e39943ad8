//! Protection of `deliveryId`, `url` and `icon`: clients trust that Tidings set these keys. The data and the overrides
//! of a send cannot replace them. Links that run scripts are rejected.

use domain::content::Object;
use domain::link::{is_icon, is_link};
use domain::{Answer, Outcome};
use serde_json::Value;

use crate::options::Message;

/// Names of members, at any depth of a push, that phones and browsers open as links.
const LINKS: [&str; 6] = ["url", "link", "deeplink", "deep_link", "click_action", "action_url"];
/// Names of members, at any depth of a push, that phones and browsers load as images.
const IMAGES: [&str; 3] = ["icon", "image", "badge"];

/// Removes from `data` the keys that Tidings sets. If the message has no `url` or no `icon`, the value in `data` stays,
/// and must be a valid link or icon.
pub(crate) fn defend(data: &mut Object, message: &Message) -> Result<(), Answer> {
    data.remove("deliveryId");
    for (name, own) in [("url", &message.url), ("icon", &message.icon)] {
        if own.is_some() {
            data.remove(name);
        }
    }
    check("url", data.get("url"), is_link)?;
    check("icon", data.get("icon"), is_icon)
}

/// Rejects links and images that a client must not open, at any depth of the object.
pub(crate) fn check_links(members: &Object) -> Result<(), Answer> {
    for (name, value) in members {
        match value {
            Value::Object(inner) => check_links(inner)?,
            Value::Array(items) => {
                items.iter().filter_map(Value::as_object).try_for_each(check_links)?;
            }
            value if LINKS.contains(&name.to_ascii_lowercase().as_str()) => {
                check(name, Some(value), is_link)?;
            }
            value if IMAGES.contains(&name.to_ascii_lowercase().as_str()) => {
                check(name, Some(value), is_icon)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check(name: &str, value: Option<&Value>, is_sound: impl Fn(&str) -> bool) -> Result<(), Answer> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    if is_sound(text) {
        return Ok(());
    }
    let problem =
        format!("{name} of the push must be a relative or http(s) link, or have a scheme of your app");
    Err(Answer::new(Outcome::Failed, "link", problem))
}
