//! Headers and payload of a push in the format of APNs.

use bytes::Bytes;
use domain::content::Object;
use domain::excerpt::{Cut, Fitted, fitting};
use domain::mobile_push::apns;
use domain::{Answer, Problem, Reason};
use serde_json::{Value, json};

use crate::merge::merge;
use crate::options::{Message, PATH, unusable};
use crate::own;

/// Maximum payload of a push in bytes, except for a VoIP push.
const LARGEST: usize = 4_096;
/// Maximum payload of a VoIP push in bytes.
const LARGEST_CALL: usize = 5_120;
/// A push as APNs receives it.
pub(super) struct Notification {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) payload: Bytes,
    /// Note about the body, if it was cut.
    pub(super) cut: Option<Cut>,
}

impl Notification {
    /// Builds the push of a message for the app with the bundle id `topic`. Shortens the message's body if the payload
    /// is too large. The error is an answer that fails the delivery permanently.
    pub(super) fn of(message: &Message, topic: &str) -> Result<Notification, Answer> {
        let (empty, options) = (Object::new(), &message.options);
        let headers = headers(message, topic, apns::headers(&options.apns).unwrap_or(&empty))?;
        let mut over = apns::payload(&options.apns).unwrap_or(&empty).clone();
        let is_call = headers.iter().any(|header| *header == ("apns-push-type", "voip".to_owned()));
        let largest = if is_call { LARGEST_CALL } else { LARGEST };
        let body = message.body.clone().unwrap_or_default();
        own::defend(&mut over, message);
        let text = |body: &str| Value::Object(payload(message, body, &over)).to_string();
        match fitting(body, largest, |body| text(body).len()) {
            Some(Fitted { text: body, cut }) => {
                Ok(Notification { headers, payload: text(&body).into(), cut })
            }
            None => {
                let problem = format!("without any body, the payload has more than {largest} bytes");
                Err(Answer::refused(Reason::TooLarge, "too_large", problem))
            }
        }
    }
}

fn headers(message: &Message, topic: &str, over: &Object) -> Result<Vec<(&'static str, String)>, Answer> {
    let options = &message.options;
    let is_background = !message.is_shown() && options.content_available;
    let mut headers = vec![("apns-id", message.delivery.0.to_string())];
    for name in apns::OPEN_HEADERS {
        let own = over.get(name).map(apns::header_text);
        let value = own.or_else(|| match name {
            "apns-push-type" => Some(if is_background { "background" } else { "alert" }.to_owned()),
            // APNs rejects a background push with any priority other than 5.
            "apns-priority" => Some(if options.is_urgent && !is_background { "10" } else { "5" }.to_owned()),
            "apns-expiration" => message.expires_at.map(|end| end.millis().div_euclid(1_000).to_string()),
            "apns-collapse-id" => options.collapse_id.clone(),
            _ => Some(topic.to_owned()),
        });
        let Some(value) = value else { continue };
        if name == "apns-topic" && value != topic && !value.starts_with(&format!("{topic}.")) {
            let path = format!("{PATH}.apns.headers.{name}");
            let message = format!("{path} must be the provider's topic {topic} or begin with it");
            return Err(unusable(&[Problem::new(path, "invalid_header", message)]));
        }
        headers.push((name, value));
    }
    Ok(headers)
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
