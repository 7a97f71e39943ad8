//! Protection of `deliveryId`, `url` and `icon`: clients trust that Tidings set these keys, so data and overrides of a send cannot replace
//! them.

use super::links::{is_sound_icon, is_sound_link};
use super::message::Message;
use crate::content::Object;

/// Removes from `data` the keys that Tidings sets. If the message has no `url` or no `icon`, the value in `data` stays,
/// unless it runs scripts.
pub(super) fn defend(data: &mut Object, message: &Message) {
    data.remove("deliveryId");
    if message.url.is_some() || !data.get("url").is_none_or(is_sound_link) {
        data.remove("url");
    }
    if message.icon.is_some() || !data.get("icon").is_none_or(is_sound_icon) {
        data.remove("icon");
    }
}
