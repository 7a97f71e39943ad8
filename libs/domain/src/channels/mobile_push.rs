//! Mobile push: the options of a send, and the rules of FCM and APNs that Tidings knows without asking them.

pub mod apns;
pub mod data;
pub mod links;
pub mod options;

use crate::Problem;
use crate::overrides::PushOverride;
use crate::size::json_size;

/// Largest push without its body, in bytes. The rest of the 4,096 bytes of FCM and APNs is for what Tidings adds.
pub const MAX_PUSH: usize = 3_968;

/// Checks `override.channel.mobilePush`, whose location is `path`.
pub fn check(push: &PushOverride, path: &str, problems: &mut Vec<Problem>) {
    options::MobilePushOptions::parse(push.options.clone(), path, problems);
    for (name, is_sound) in [
        ("url", push.data.get("url").is_none_or(links::is_sound_link)),
        ("icon", push.data.get("icon").is_none_or(links::is_sound_icon)),
    ] {
        if !is_sound {
            problems.push(links::problem(&format!("{path}.data.{name}")));
        }
    }
    let texts: usize = [&push.title, &push.icon, &push.url].into_iter().flatten().map(json_size).sum();
    let size = texts + json_size(&push.data).max(json_size(&data::as_texts(&push.data)));
    if size > MAX_PUSH {
        let message = format!(
            "{path} has {size} bytes without its body; at most {MAX_PUSH} fit into a push: shorten data"
        );
        problems.push(Problem::new(path, "too_long", message));
    }
}
