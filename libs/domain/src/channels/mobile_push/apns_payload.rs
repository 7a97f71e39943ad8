use serde_json::{Value, json};

use super::merge::merge;
use super::message::Message;
use super::{apns, own};
use crate::content::Object;
use crate::excerpt::{Cut, Fitted, fitting};
use crate::{Answer, Reason};

/// Size in bytes, except for a VoIP push.
const LARGEST: usize = 4_096;

/// Builds the payload as JSON text, and cuts the body if the payload is too large. The error fails the delivery permanently: the payload is
/// too large even without a body.
pub fn of(message: &Message) -> Result<(String, Option<Cut>), Answer> {
    let empty = Object::new();
    let over = &message.options.apns;
    let kind = apns::headers(over).and_then(|headers| headers.get("apns-push-type")).map(apns::header_text);
    let largest = if kind.as_deref() == Some("voip") { apns::MAX_PAYLOAD } else { LARGEST };
    let mut over = apns::payload(over).unwrap_or(&empty).clone();
    own::defend(&mut over, message);
    let text = |body: &str| Value::Object(payload(message, body, &over)).to_string();
    match fitting(message.body.clone().unwrap_or_default(), largest, |body| text(body).len()) {
        Some(Fitted { text: body, cut }) => Ok((text(&body), cut)),
        None => {
            let problem = format!("without any body, the payload has more than {largest} bytes");
            Err(Answer::refused(Reason::TooLarge, "too_large", problem))
        }
    }
}

fn payload(message: &Message, body: &str, over: &Object) -> Object {
    let options = &message.options;
    let mut aps = Object::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            aps.insert(name.to_owned(), value);
        }
    };
    if message.is_shown() {
        let lines = [
            ("title", message.title.as_deref()),
            ("subtitle", options.subtitle.as_deref()),
            ("body", Some(body).filter(|body| !body.is_empty())),
        ];
        let alert = lines.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
        set("alert", Some(Value::Object(alert.collect())));
        let sound = options.sound.as_deref().unwrap_or("default");
        set("sound", Some(sound).filter(|sound| !sound.is_empty()).map(Value::from));
    }
    set("badge", options.badge.map(Value::from));
    set("thread-id", options.thread_id.clone().map(Value::from));
    set("category", options.category.clone().map(Value::from));
    set("interruption-level", options.interruption_level.clone().map(Value::from));
    // The app's notification service extension must download the image. iOS runs the extension only for mutable
    // content.
    let is_mutable = options.mutable_content || options.image.is_some();
    set("mutable-content", is_mutable.then(|| json!(1)));
    set("content-available", options.content_available.then(|| json!(1)));

    let mut payload = Object::new();
    payload.insert("aps".to_owned(), Value::Object(aps));
    payload.insert("deliveryId".to_owned(), message.delivery.0.to_string().into());
    let texts = [("url", &message.url), ("icon", &message.icon), ("image", &options.image)];
    for (name, text) in texts {
        if let Some(text) = text {
            payload.insert(name.to_owned(), text.as_str().into());
        }
    }
    if !message.data.is_empty() {
        payload.insert("data".to_owned(), Value::Object(message.data.clone()));
    }
    merge(&mut payload, over);
    payload
}
