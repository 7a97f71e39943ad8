//! Reads and validates the member `override` of a send request.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::content::{EmailOptions, Object};
use crate::excerpt::excerpt;
use crate::fields::{Fields, check_identifier};
use crate::mail_header::{self, MAX_HEADER_NAME, Refusal};
use crate::overrides::{EmailOverride, Overrides, PushOverride, SmsOverride};
use crate::request::{MAX_MESSAGE, MAX_REFERENCE, MAX_TITLE};
use crate::size::json_size;
use crate::sms::segment::{MOST_SEGMENTS, SegmentedText};
use crate::sms::sender::{SENDER, is_sender};
use crate::{Channel, EmailAddress, Problem, mobile_push, web_push};

/// Longest HTML or text of an email, in bytes.
pub const MAX_EMAIL_PART: usize = 256 * 1024;
/// Maximum number of addresses in `cc` and `bcc` together.
pub const MAX_COPIES: usize = 50;
/// Maximum number of additional headers of an email.
pub const MAX_HEADERS: usize = 50;
/// Longest header with its name, in bytes: the limit of a line (RFC 5322, section 2.1.1).
pub const MAX_HEADER_VALUE: usize = 998;
/// Longest name of a sender, in bytes.
pub const MAX_SENDER: usize = 255;
/// Maximum size of the overrides for providers, as JSON text, in bytes. The limit is needed because every job of the send
/// contains them.
pub const MAX_PROVIDER_OVERRIDES: usize = 64 * 1024;

/// Reads `override`. Returns the selected channels (None if it selects none) and all other overrides.
pub(super) fn read(
    body: &mut Fields,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> (Option<Vec<Channel>>, Overrides) {
    let Some(mut fields) = body.object("override", problems) else {
        return (None, Overrides::default());
    };
    let channels = read_channels(&mut fields, problems);
    let mut overrides = Overrides::default();
    if let Some(mut by_channel) = fields.object("channel", problems) {
        let email = by_channel.object("email", problems);
        overrides.email = email.map(|fields| Box::new(read_email(fields, strict, problems)));
        let sms = by_channel.object("sms", problems);
        overrides.sms = sms.map(|fields| read_sms(fields, strict, problems));
        let mobile_push = by_channel.object("mobilePush", problems);
        overrides.mobile_push = mobile_push.map(|fields| read_push(fields, problems));
        let web_push = by_channel.object("webPush", problems);
        overrides.web_push = web_push.map(|fields| read_push(fields, problems));
        if let Some(push) = &overrides.mobile_push {
            mobile_push::check(push, "override.channel.mobilePush", problems);
        }
        if let Some(push) = &overrides.web_push {
            web_push::check(push, "override.channel.webPush", problems);
        }
        by_channel.finish(strict, problems);
    }
    overrides.providers = read_providers(fields, problems);
    (channels, overrides)
}

fn read_channels(fields: &mut Fields, problems: &mut Vec<Problem>) -> Option<Vec<Channel>> {
    let names = fields.array("channels", problems)?;
    let mut channels = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match name.as_str().map(str::parse::<Channel>) {
            Some(Ok(channel)) if channels.contains(&channel) => {}
            Some(Ok(channel)) => channels.push(channel),
            _ => {
                let path = format!("override.channels[{index}]");
                let known: Vec<_> = Channel::ALL.iter().map(|channel| channel.as_str()).collect();
                let message = format!("{path} must be one of {}", known.join(", "));
                problems.push(Problem::new(path, "unknown_channel", message));
            }
        }
    }
    (!channels.is_empty()).then_some(channels)
}

fn read_email(mut fields: Fields, strict: bool, problems: &mut Vec<Problem>) -> EmailOverride {
    let from = read_address(&mut fields, "from", problems);
    let from_name = fields.line("fromName", MAX_SENDER, problems);
    let reply_to = read_address(&mut fields, "replyTo", problems);
    let (cc, bcc) =
        (read_addresses(&mut fields, "cc", problems), read_addresses(&mut fields, "bcc", problems));
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
        headers: read_headers(&mut fields, problems),
        attachments: Vec::new(),
    };
    if copies > MAX_COPIES {
        let path = fields.path("cc");
        let message =
            format!("{path} and bcc name {copies} addresses; at most {MAX_COPIES} together are allowed");
        problems.push(Problem::new(path, "too_many", message));
    }
    let email = EmailOverride {
        subject: fields.line("subject", MAX_TITLE, problems),
        text: fields.string("text", MAX_EMAIL_PART, problems),
        html: fields.string("html", MAX_EMAIL_PART, problems),
        options,
    };
    fields.finish(strict, problems);
    email
}

fn read_address(fields: &mut Fields, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let value = fields.take(key)?;
    check_address(&fields.path(key), value, problems).map(|(_, text)| text)
}

/// Reads one address or an array of addresses.
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

fn read_headers(fields: &mut Fields, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let path = fields.path("headers");
    let given = fields.free_object("headers", problems).unwrap_or_default();
    if given.len() > MAX_HEADERS {
        let message = format!("{path} has {} headers; at most {MAX_HEADERS} are allowed", given.len());
        problems.push(Problem::new(&path, "too_many", message));
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

fn read_sms(mut fields: Fields, strict: bool, problems: &mut Vec<Problem>) -> SmsOverride {
    let text = fields.string("text", MAX_MESSAGE, problems);
    let from = fields.line("from", MAX_SENDER, problems);
    if let Some(text) = &text {
        let path = fields.path("text");
        if text.trim().is_empty() {
            problems.push(Problem::new(&path, "empty", format!("{path} must not be blank")));
        } else if SegmentedText::of(text).parts.len() > MOST_SEGMENTS {
            let message = format!("{path} has more than {MOST_SEGMENTS} segments");
            problems.push(Problem::new(&path, "too_long", message));
        }
    }
    if from.as_deref().is_some_and(|from| !is_sender(from)) {
        let path = fields.path("from");
        problems.push(Problem::new(&path, "invalid_sender", format!("{path} {SENDER}")));
    }
    fields.finish(strict, problems);
    SmsOverride { text, from }
}

/// Reads the texts and `data`. The channel's workers interpret all other members.
fn read_push(mut fields: Fields, problems: &mut Vec<Problem>) -> PushOverride {
    PushOverride {
        title: fields.string("title", MAX_TITLE, problems),
        body: fields.string("body", MAX_MESSAGE, problems),
        icon: fields.icon("icon", MAX_REFERENCE, problems),
        url: fields.link("url", MAX_REFERENCE, problems),
        data: fields.free_object("data", problems).unwrap_or_default(),
        options: fields.rest().into_iter().filter(|(_, value)| !value.is_null()).collect(),
    }
}

/// Reads the overrides for single providers: each remaining member of `override` has a provider's identifier as its name.
fn read_providers(mut fields: Fields, problems: &mut Vec<Problem>) -> BTreeMap<String, Object> {
    let mut providers = BTreeMap::new();
    for identifier in fields.keys() {
        let Some(members) = fields.free_object(&identifier, problems) else { continue };
        let path = fields.path(&identifier);
        let Some(identifier) = check_identifier(&path, identifier, problems) else { continue };
        check_config(&path, &members, problems);
        providers.insert(identifier, members);
    }
    let size = json_size(&providers);
    if size > MAX_PROVIDER_OVERRIDES {
        let message =
            format!("override has {size} bytes for providers; at most {MAX_PROVIDER_OVERRIDES} are allowed");
        problems.push(Problem::new("override", "too_long", message));
    }
    providers
}

/// Checks `_config`. A send may set another sender, but not the host or the credentials of a provider. Otherwise a request could
/// direct credentials or messages to another host.
fn check_config(path: &str, members: &Object, problems: &mut Vec<Problem>) {
    let Some(config) = members.get("_config").filter(|config| !config.is_null()) else { return };
    let path = format!("{path}._config");
    let Some(mut config) = Fields::open(&path, config.clone(), problems) else { return };
    for key in config.keys() {
        match key.as_str() {
            // An address or the sender of an SMS, depending on the provider, which the caller of this crate looks up.
            "from" => {
                let from = config.line(&key, MAX_SENDER, problems);
                if from.is_some_and(|from| EmailAddress::parse(&from).is_err() && !is_sender(&from)) {
                    let path = config.path(&key);
                    let message = format!("{path} must be an email address or the sender of an SMS");
                    problems.push(Problem::new(path, "invalid_sender", message));
                }
            }
            "fromName" => {
                config.line(&key, MAX_SENDER, problems);
            }
            "replyTo" => {
                read_address(&mut config, &key, problems);
            }
            _ => {
                let path = config.path(&key);
                let message = format!(
                    "{path} cannot be set by a send, which may set only from, fromName and replyTo; hosts and \
                     credentials belong to the provider's own settings"
                );
                problems.push(Problem::new(path, "not_allowed", message));
            }
        }
    }
}
