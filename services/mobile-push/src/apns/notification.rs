use bytes::Bytes;
use domain::content::Object;
use domain::excerpt::Cut;
use domain::mobile_push::message::{Message, unusable};
use domain::mobile_push::{PATH, apns, apns_payload};
use domain::{Answer, Problem};

pub(super) struct Notification {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) payload: Bytes,
    pub(super) cut: Option<Cut>,
}

impl Notification {
    /// Shortens the message's body if the payload is too large. The error is an answer that fails the delivery permanently.
    pub(super) fn of(message: &Message, topic: &str) -> Result<Notification, Answer> {
        let empty = Object::new();
        let headers = headers(message, topic, apns::headers(&message.options.apns).unwrap_or(&empty))?;
        let (payload, cut) = apns_payload::of(message)?;
        Ok(Notification { headers, payload: payload.into(), cut })
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
        if name == "apns-topic" && !apns::serves_topic(topic, &value) {
            let path = format!("{PATH}.apns.headers.{name}");
            let message = format!("{path} must be the provider's topic {topic} or begin with it");
            return Err(unusable(&[Problem::new(path, "invalid_header", message)]));
        }
        headers.push((name, value));
    }
    Ok(headers)
}
