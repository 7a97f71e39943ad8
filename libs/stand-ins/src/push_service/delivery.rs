//! The checks of a message that need no browser: they come before the push service looks up the browser (RFC 8030).

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, HeaderMap};

use super::WaitingMessage;
use super::authorization::Authorization;
use super::browser::EncryptedMessage;
use super::refused::Refusal;

/// Maximum size of a body in bytes. Push services may refuse larger bodies.
const MAX_BODY: usize = 4096;
const MAX_TOPIC: usize = 32;
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];

/// A message that passed the checks.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) authorization: Authorization,
    ttl: u64,
    urgency: String,
    topic: Option<String>,
}

impl Delivery {
    /// Checks a message. `origin` is the origin of this push service; `now` is in seconds since 1970.
    pub(super) fn read(request: &Request<Bytes>, origin: &str, now: u64) -> Result<Delivery, Refusal> {
        let headers = request.headers();
        let authorization = Authorization::read(headers, origin, now)?;
        if one(headers, CONTENT_ENCODING.as_str())? != Some("aes128gcm") {
            return Err(Refusal::new(400, "Content-Encoding is not aes128gcm"));
        }
        let ttl = one(headers, "ttl")?.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let ttl = ttl.and_then(|text| text.parse().ok()).ok_or(Refusal::new(400, "TTL is not a number"))?;
        let urgency = one(headers, "urgency")?.unwrap_or("normal");
        if !URGENCIES.contains(&urgency) {
            return Err(Refusal::new(400, "Urgency is not a value of RFC 8030"));
        }
        let topic = one(headers, "topic")?;
        if topic.is_some_and(|topic| !is_topic(topic)) {
            return Err(Refusal::new(400, "Topic is not 1 to 32 characters of base64url"));
        }
        if request.body().len() > MAX_BODY {
            return Err(Refusal::new(413, "the body has more than 4096 bytes"));
        }
        EncryptedMessage::read(request.body())
            .map_err(|error| Refusal { status: 400, why: error.to_string() })?;
        Ok(Delivery { authorization, ttl, urgency: urgency.to_owned(), topic: topic.map(str::to_owned) })
    }

    pub(super) fn waiting(&self, message: Vec<u8>) -> WaitingMessage {
        WaitingMessage { ttl: self.ttl, urgency: self.urgency.clone(), topic: self.topic.clone(), message }
    }
}

/// Returns the value of a header, or None if it is absent. Fails if the header is repeated.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str());
    match (first.transpose(), values.next()) {
        (Ok(value), None) => Ok(value),
        _ => Err(Refusal { status: 400, why: format!("{name} is repeated, or is not ASCII") }),
    }
}

fn is_topic(text: &str) -> bool {
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_TOPIC).contains(&text.len()) && text.bytes().all(in_alphabet)
}
