//! `override.channel.email`.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::MAX_SENDER;
use crate::body::kind::{Line, Text};
use crate::content::{EmailOptions, Object};
use crate::excerpt::excerpt;
use crate::fields::Fields;
use crate::mail_header::{self, MAX_HEADER_NAME, Refusal};
use crate::overrides::EmailOverride;
use crate::request::MAX_TITLE;
use crate::{EmailAddress, Problem};

/// Longest HTML or text of an email, in bytes.
pub const MAX_EMAIL_PART: usize = 256 * 1024;
/// Maximum number of addresses in `cc` and `bcc` together.
pub const MAX_COPIES: usize = 50;
/// Maximum number of additional headers of an email.
pub const MAX_HEADERS: usize = 50;
/// Longest header with its name, in bytes: the limit of a line (RFC 5322, section 2.1.1).
pub const MAX_HEADER_VALUE: usize = 998;

crate::body! {
    /// Overrides for email. If `text` or `html` is given, the text and HTML of the template are not used.
    pub(super) struct EmailBody as "EmailOverride" {
        /// Sender address instead of `from` in the provider's settings. The settings list the allowed addresses in `allowedFrom`; by
        /// default, every address in the domain of their `from` is allowed. 400 (`sender_not_allowed`) if no email provider of the app
        /// allows the address. If only some do, and another one is used, the delivery fails with the reason `sender_not_allowed`.
        optional from: Address,
        optional sender_name as "fromName": Line<MAX_SENDER>,
        /// Address for replies.
        optional reply_to as "replyTo": Address,
        /// One address or several; at most 50 together with `bcc`.
        optional cc: Addresses,
        optional bcc: Addresses,
        optional subject: Line<MAX_TITLE>,
        optional text: Text<MAX_EMAIL_PART>,
        optional html: Text<MAX_EMAIL_PART>,
        /// Further headers, at most 50. Names consist of letters, digits and hyphens. The service refuses headers that it writes
        /// itself, and headers that control a relay.
        optional headers: Headers,
    }
}

impl EmailBody {
    pub(super) fn read(mut self, strict: bool, problems: &mut Vec<Problem>) -> EmailOverride {
        let from = self.from(problems);
        let from_name = self.sender_name(problems);
        let reply_to = self.reply_to(problems);
        let cc = self.cc(problems).unwrap_or_default();
        let bcc = self.bcc(problems).unwrap_or_default();
        let copies = cc.len() + bcc.len();
        let mut seen = HashSet::new();
        let mut distinct = |addresses: Vec<(EmailAddress, String)>| {
            let new = addresses.into_iter().filter(|(address, _)| seen.insert(address.clone()));
            new.map(|(_, text)| text).collect()
        };
        let options = EmailOptions {
            from,
            from_name,
            reply_to,
            cc: distinct(cc),
            bcc: distinct(bcc),
            headers: self.headers(problems).unwrap_or_default(),
            attachments: Vec::new(),
        };
        if copies > MAX_COPIES {
            let path = self.fields.path("cc");
            let message =
                format!("{path} and bcc name {copies} addresses; at most {MAX_COPIES} together are allowed");
            problems.push(Problem::new(path, "too_many", message));
        }
        let email = EmailOverride {
            subject: self.subject(problems),
            text: self.text(problems),
            html: self.html(problems),
            options,
        };
        self.fields.finish(strict, problems);
        email
    }
}

/// An email address.
#[derive(Debug)]
pub(super) struct Address;

/// One address or an array of addresses.
#[derive(Debug)]
struct Addresses;

/// Additional headers of an email.
#[derive(Debug)]
struct Headers;

crate::kinds! {
    Address, () => String, read_address, |_| json!({"type": "string"});
    Addresses, () => Vec<(EmailAddress, String)>, |fields, key, problems| Some(read_addresses(fields, key, problems)),
        |_| json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    Headers, () => BTreeMap<String, String>, read_headers,
        |_| json!({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}});
}

fn read_address(fields: &mut Fields, key: &'static str, problems: &mut Vec<Problem>) -> Option<String> {
    let value = fields.take(key)?;
    check_address(&fields.path(key), value, problems).map(|(_, text)| text)
}

fn read_headers(
    fields: &mut Fields,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<BTreeMap<String, String>> {
    let given = fields.free_object(key, problems)?;
    Some(check_headers(&fields.path(key), given, problems))
}

fn read_addresses(
    fields: &mut Fields,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Vec<(EmailAddress, String)> {
    let path = fields.path(key);
    match fields.take(key) {
        None => Vec::new(),
        Some(Value::Array(items)) => {
            // Report one problem for the whole list, and do not check the addresses.
            if items.len() > MAX_COPIES {
                let message =
                    format!("{path} names {} addresses; at most {MAX_COPIES} are allowed", items.len());
                problems.push(Problem::new(&path, "too_many", message));
                return Vec::new();
            }
            let items = items.into_iter().enumerate();
            items
                .filter_map(|(index, item)| check_address(&format!("{path}[{index}]"), item, problems))
                .collect()
        }
        Some(value) => check_address(&path, value, problems).into_iter().collect(),
    }
}

/// Returns the address, and its text as given, which is parsed again when it is sent.
fn check_address(path: &str, value: Value, problems: &mut Vec<Problem>) -> Option<(EmailAddress, String)> {
    match value {
        Value::String(text) => match EmailAddress::parse(&text) {
            Ok(address) => return Some((address, text.trim().to_owned())),
            Err(problem) => problems.push(Problem::new(path, "invalid_address", format!("{path} {problem}"))),
        },
        _ => problems.push(Problem::new(path, "invalid_type", format!("{path} must be a string"))),
    }
    None
}

fn check_headers(path: &str, given: Object, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    if given.len() > MAX_HEADERS {
        let message = format!("{path} has {} headers; at most {MAX_HEADERS} are allowed", given.len());
        problems.push(Problem::new(path, "too_many", message));
        return BTreeMap::new();
    }
    let mut headers = BTreeMap::new();
    for (name, value) in given {
        if value.is_null() {
            continue;
        }
        let path = format!("{path}.{}", excerpt(name.clone(), MAX_HEADER_NAME));
        let is_repeated = headers.keys().any(|known: &String| known.eq_ignore_ascii_case(&name));
        match check_header(&name, &value) {
            Err((code, demand)) => problems.push(Problem::new(&path, code, format!("{path} {demand}"))),
            Ok(_) if is_repeated => {
                let message = format!("{path} is repeated; header names are not case-sensitive");
                problems.push(Problem::new(&path, "repeated", message));
            }
            Ok(text) => {
                headers.insert(name, text.to_owned());
            }
        }
    }
    headers
}

/// Returns the value of a header, or the code and the description of its problem.
fn check_header<'a>(name: &str, value: &'a Value) -> Result<&'a str, (&'static str, String)> {
    match mail_header::refusal(name) {
        Some(Refusal::NoName) => {
            let demand = format!(
                "must be the name of a header: 1 to {MAX_HEADER_NAME} ASCII letters, digits and hyphens, the first \
                 a letter or a digit"
            );
            return Err(("invalid_character", demand));
        }
        Some(Refusal::Owned) => {
            return Err(("not_allowed", "is a header that Tidings writes itself".to_owned()));
        }
        Some(Refusal::Relay) => {
            let demand =
                "may be a command for the provider; name a header of your own X-App-… or X- with one word";
            return Err(("not_allowed", demand.to_owned()));
        }
        None => {}
    }
    let Some(text) = value.as_str() else {
        return Err(("invalid_type", "must be a string".to_owned()));
    };
    if !mail_header::fits_on_a_line(name, text) {
        let size = name.len() + 2 + text.len();
        let demand = format!("has {size} bytes with its name; at most {MAX_HEADER_VALUE} are allowed");
        return Err(("too_long", demand));
    }
    if text.chars().any(char::is_control) {
        return Err((
            "invalid_character",
            "must not contain line breaks or other control characters".to_owned(),
        ));
    }
    Ok(text)
}
