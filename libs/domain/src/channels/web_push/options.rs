use serde_json::{Value, json};

use crate::Problem;
use crate::body::Body;
use crate::body::kind::{Any, FreeObject, Icon, Link, Text, with_pattern};
use crate::body::rest::AnyMembers;
use crate::content::Object;
use crate::fields::Fields;
use crate::overrides::PushOverride;
use crate::request::{self, MAX_REFERENCE, MAX_TITLE};
use crate::size::json_size;
use crate::text_enum::text_enum;

/// Length in bytes (RFC 8030, section 5.4).
const MAX_TOPIC: usize = 32;
/// Four weeks, in seconds.
pub const MAX_TTL: u32 = 28 * 86_400;

text_enum! {
    /// Urgency of a message (RFC 8030, section 5.3): the push service may hold the message until the device is in the state of the variant
    /// or in one listed before it.
    Urgency {
        /// The device is on power and Wi-Fi.
        VeryLow = "very-low",
        /// The device is on either power or Wi-Fi.
        Low = "low",
        /// The device is on neither power nor Wi-Fi.
        Normal = "normal",
        /// The device's battery is low.
        High = "high",
    }
}

/// Largest message without its body, in bytes. The rest of the 3,993 bytes that fit into an encrypted message is for what Tidings
/// adds.
pub const MAX_MESSAGE: usize = 3_480;

crate::body! {
    /// Overrides for web push. The service ignores unknown members.
    pub(crate) struct WebPushBody as "WebPushOverride" {
        optional title: Text<MAX_TITLE>,
        /// Cut if the message is too large for the push service.
        optional body: Text<{ request::MAX_MESSAGE }>,
        optional icon: Icon<MAX_REFERENCE>,
        optional url: Link<MAX_REFERENCE>,
        /// Data of the message. A key here overrides the same key of the send's `data`. Together with `title`, `icon` and
        /// `url`, it may have 3,480 bytes.
        optional data: FreeObject,
        /// Seconds for which the push service keeps the message, at most four weeks.
        optional ttl: Ttl,
        optional urgency: UrgencyName,
        /// A message replaces an undelivered message with the same topic.
        optional topic: Any<Topic>,
        ..AnyMembers
    }
}

impl WebPushBody {
    /// Reads the texts and `data`. [`WebPushOptions::parse`] reads all other members.
    pub(crate) fn read(mut self, problems: &mut Vec<Problem>) -> PushOverride {
        PushOverride {
            title: self.title(problems),
            body: self.body(problems),
            icon: self.icon(problems),
            url: self.url(problems),
            data: self.data(problems).unwrap_or_default(),
            options: self.fields.rest().into_iter().filter(|(_, value)| !value.is_null()).collect(),
        }
    }
}

#[derive(Debug)]
struct Ttl;

#[derive(Debug)]
struct UrgencyName;

crate::kinds! {
    Ttl, () => u32, |fields, _, problems| read_ttl(fields, problems),
        |_| json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": MAX_TTL});
    UrgencyName, () => Urgency, |fields, _, problems| read_urgency(fields, problems), |_| json!({
        "description": "Urgency of a web push (RFC 8030, section 5.3).",
        "type": "string",
        "enum": Urgency::ALL,
    });
}

crate::schemas! {
    Topic = |_| with_pattern(json!({"type": "string"}), &format!("^[A-Za-z0-9_-]{{1,{MAX_TOPIC}}}$"));
}

pub fn check(push: &PushOverride, path: &str, problems: &mut Vec<Problem>) {
    WebPushOptions::parse(push.options.clone(), path, problems);
    let texts: usize = [&push.title, &push.icon, &push.url].into_iter().flatten().map(json_size).sum();
    let size = texts + json_size(&push.data);
    if size > MAX_MESSAGE {
        let message = format!(
            "{path} has {size} bytes without its body; at most {MAX_MESSAGE} fit into a message: shorten data"
        );
        problems.push(Problem::new(path, "too_long", message));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebPushOptions {
    /// Seconds for which a push service keeps the message for an unreachable browser.
    pub ttl: Option<u32>,
    pub urgency: Option<Urgency>,
    /// At most 32 characters of base64url. A message replaces an undelivered message with the same topic.
    pub topic: Option<String>,
}

impl WebPushOptions {
    /// Ignores unknown members. `path` is the location of the options in the request.
    pub fn parse(options: Object, path: &str, problems: &mut Vec<Problem>) -> WebPushOptions {
        let Some(mut fields) = WebPushBody::open(path, Value::Object(options), problems) else {
            return WebPushOptions::default();
        };
        WebPushOptions {
            ttl: fields.ttl(problems),
            urgency: fields.urgency(problems),
            topic: read_topic(&mut fields, problems),
        }
    }
}

/// Whole seconds, at most four weeks. Also used for provider settings.
pub fn read_ttl(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<u32> {
    let before = problems.len();
    let seconds = fields.whole_number("ttl", problems);
    let ttl = seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|ttl| *ttl <= MAX_TTL);
    if seconds.is_some() && ttl.is_none() && problems.len() == before {
        let path = fields.path("ttl");
        let message = format!("{path} must be seconds, from 0 to {MAX_TTL} (four weeks)");
        problems.push(Problem::new(path, "out_of_range", message));
    }
    ttl
}

/// Used for provider settings as well.
pub fn read_urgency(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<Urgency> {
    let value = fields.take("urgency")?;
    let urgency = value.as_str().and_then(|text| text.parse().ok());
    if urgency.is_none() {
        let path = fields.path("urgency");
        let known: Vec<_> = Urgency::ALL.iter().map(|urgency| urgency.as_str()).collect();
        let message = format!("{path} must be one of {}", known.join(", "));
        problems.push(Problem::new(path, "unknown_value", message));
    }
    urgency
}

fn read_topic(options: &mut WebPushBody, problems: &mut Vec<Problem>) -> Option<String> {
    let value = options.topic(problems)?;
    let is_sound = |text: &str| {
        (1..=MAX_TOPIC).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let topic = value.as_str().filter(|text| is_sound(text)).map(str::to_owned);
    if topic.is_none() {
        let path = options.fields.path("topic");
        let message = format!("{path} must have 1 to {MAX_TOPIC} characters of A-Z, a-z, 0-9, - and _");
        problems.push(Problem::new(path, "invalid_topic", message));
    }
    topic
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &Value) -> Result<WebPushOptions, Vec<(String, &'static str)>> {
        let mut problems = Vec::new();
        let options = WebPushOptions::parse(options.as_object().cloned().unwrap(), "o", &mut problems);
        if problems.is_empty() {
            Ok(options)
        } else {
            Err(problems.into_iter().map(|problem| (problem.field, problem.code)).collect())
        }
    }

    #[test]
    fn all_options_are_read_and_every_problem_is_named() {
        let whole =
            json!({"ttl": 60, "urgency": "very-low", "topic": "Basket_7-a", "requireInteraction": true});
        let (topic, urgency) = (Some("Basket_7-a".to_owned()), Some(Urgency::VeryLow));
        assert_eq!(parse(&whole), Ok(WebPushOptions { ttl: Some(60), urgency, topic }));
        assert_eq!(parse(&json!({"ttl": null})), Ok(WebPushOptions::default()));
        let wrong = json!({"ttl": 2_419_201, "urgency": "urgent", "topic": "a b"});
        let codes = ["out_of_range", "unknown_value", "invalid_topic"];
        let fields = ["o.ttl", "o.urgency", "o.topic"].map(str::to_owned);
        assert_eq!(parse(&wrong), Err(fields.into_iter().zip(codes).collect()));
        for topic in ["", "t".repeat(33).as_str(), "a=", "a\r\nb"] {
            assert!(parse(&json!({"topic": topic})).is_err(), "{topic:?}");
        }
        for ttl in [json!(-1), json!(1.5), json!("60")] {
            assert!(parse(&json!({"ttl": ttl})).is_err(), "{ttl}");
        }
    }
}
