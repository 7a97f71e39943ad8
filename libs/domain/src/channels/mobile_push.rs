pub mod apns;
pub mod apns_payload;
pub mod data;
pub mod fcm;
pub mod links;
mod merge;
pub mod message;
pub mod options;
mod own;

use uuid::Uuid;

use crate::content::PushContent;
use crate::excerpt::Cut;
use crate::overrides::PushOverride;
use crate::{Answer, DeliveryId, Problem, Timestamp};
use message::Message;

pub const PATH: &str = "override.channel.mobilePush";
/// Push services; also the kinds of providers.
pub const SERVICES: [&str; 2] = ["apns", "fcm"];

pub fn check(push: &PushOverride, path: &str, problems: &mut Vec<Problem>) {
    let before = problems.len();
    options::MobilePushOptions::parse(push.options.clone(), path, problems);
    for (name, is_sound) in [
        ("url", push.data.get("url").is_none_or(links::is_sound_link)),
        ("icon", push.data.get("icon").is_none_or(links::is_sound_icon)),
    ] {
        if !is_sound {
            problems.push(links::problem(&format!("{path}.data.{name}")));
        }
    }
    if problems.len() > before {
        return;
    }
    let alone = push.alone();
    // An app may use one of the services only, so the override must be too large for all of them.
    let answers: Option<Vec<Answer>> =
        SERVICES.into_iter().map(|service| too_large(&alone, service)).collect();
    if let Some(answer) = answers.and_then(|answers| answers.into_iter().next()) {
        let message = format!("{path} does not fit into a push, shorten data: {}", answer.message);
        problems.push(Problem::new(path, "too_long", message));
    }
}

/// Returns the worker's answer if a message is too large for a push service even without a body, so that cutting the body cannot help.
#[must_use]
pub fn too_large(content: &PushContent, service: &str) -> Option<Answer> {
    cut(content, service).err()
}

/// Returns how the worker cuts the body of a message for a push service; None if it is sent whole, or if the worker cannot read it.
///
/// # Errors
/// Returns the worker's answer if the message is too large even without a body.
pub fn cut(content: &PushContent, service: &str) -> Result<Option<Cut>, Answer> {
    // The size does not depend on the time or on the value of the id.
    let (delivery, now) = (DeliveryId(Uuid::nil()), Timestamp::from_millis(0));
    let Ok(message) = Message::read(delivery, None, now, content) else { return Ok(None) };
    match service {
        "apns" => apns_payload::of(&message).map(|(_, cut)| cut),
        "fcm" => fcm::of(&message, "").map(|(_, cut)| cut),
        _ => Ok(None),
    }
}
