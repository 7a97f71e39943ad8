use serde_json::Value;

use crate::content::Object;
use crate::sms::sender::{SENDER, is_sender};
use crate::{Channel, EmailAddress, Problem};

/// Members that a send sets through its own fields.
const POSTMARK: [&str; 10] =
    ["From", "To", "Cc", "Bcc", "ReplyTo", "Subject", "TextBody", "HtmlBody", "Headers", "Attachments"];
/// Parameters that the provider's settings or the send's own fields determine.
const TWILIO: [&str; 6] = ["To", "From", "Body", "MessagingServiceSid", "StatusCallback", "ApplicationSid"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The send has its own fields for this member.
    Owned,
    Type(&'static str),
}

#[must_use]
pub fn refusal(kind: &str, name: &str, value: &Value) -> Option<Refusal> {
    let is_one_of = |owned: &[&str]| owned.iter().any(|owned| owned.eq_ignore_ascii_case(name));
    match kind {
        _ if name == "_config" => None,
        "postmark" if is_one_of(&POSTMARK) => Some(Refusal::Owned),
        "postmark" if name == "Metadata" && !value.is_object() => Some(Refusal::Type("must be an object")),
        "twilio" if is_one_of(&TWILIO) => Some(Refusal::Owned),
        "twilio" if !(value.is_string() || value.is_number() || value.is_boolean()) => {
            Some(Refusal::Type("must be a string, a number or a boolean"))
        }
        _ => None,
    }
}

pub fn check(channel: Channel, kind: &str, path: &str, members: &Object, problems: &mut Vec<Problem>) {
    for (name, value) in members {
        let path = format!("{path}.{name}");
        match refusal(kind, name, value) {
            None => {}
            Some(Refusal::Owned) => {
                let message = format!("{path} cannot be set for a single provider; use override.channel");
                problems.push(Problem::new(path, "not_allowed", message));
            }
            Some(Refusal::Type(demand)) => {
                problems.push(Problem::new(&path, "invalid_type", format!("{path} {demand}")));
            }
        }
    }
    let from = members.get("_config").and_then(|config| config.get("from")).and_then(Value::as_str);
    let Some(from) = from else { return };
    let path = format!("{path}._config.from");
    match channel {
        Channel::Email => {
            if let Err(problem) = EmailAddress::parse(from) {
                problems.push(Problem::new(&path, "invalid_address", format!("{path} {problem}")));
            }
        }
        Channel::Sms if !is_sender(from) => {
            problems.push(Problem::new(&path, "invalid_sender", format!("{path} {SENDER}")));
        }
        _ => {}
    }
}
