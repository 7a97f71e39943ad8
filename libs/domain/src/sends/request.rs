//! Reads and validates the body of a send request and turns it into a [`SendRequest`].

mod attachments;
mod overrides;
mod topics;

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::content::{InAppContent, Object};
use crate::fields::{Fields, MAX_IDENTIFIER, check_identifier, check_plain_json};
use crate::id::TemplateId;
use crate::overrides::Overrides;
use crate::profile::MAX_PROFILE;
use crate::send::{Lane, Recipient, SendRequest, TRANSACTIONAL_RECIPIENTS, TemplateRef};
use crate::size::json_size;
use crate::{Problem, Timestamp, content_ids, profile};

pub use attachments::{Files, MAX_ATTACHED, MAX_ATTACHMENTS, MAX_FILE_NAME, MAX_MEDIA_TYPE};
pub use overrides::{
    MAX_COPIES, MAX_EMAIL_PART, MAX_HEADER_VALUE, MAX_HEADERS, MAX_PROVIDER_OVERRIDES, MAX_SENDER,
};
pub use topics::{MAX_EXCLUDED, MAX_TOPICS};

/// Maximum number of recipients of one send.
pub const MAX_RECIPIENTS: usize = 10_000;
/// Longest title, in bytes.
pub const MAX_TITLE: usize = 1024;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Longest icon or link reference, in bytes.
pub const MAX_REFERENCE: usize = 2048;
/// Largest `data`, as JSON text, in bytes.
pub const MAX_DATA: usize = 256 * 1024;
/// Maximum, in bytes, of a send's content size multiplied by its number of recipients.
pub const MAX_FAN_OUT: usize = 64 * 1024 * 1024;
/// Longest time ahead for which a send may be scheduled.
pub const MAX_AHEAD: Duration = Duration::from_secs(90 * 86_400);

/// Current time and strictness for the validation of a send request.
#[derive(Clone, Copy, Debug)]
pub struct SendRules {
    pub now: Timestamp,
    /// True if unknown members are problems (`Prefer: handling=strict`).
    pub strict: bool,
}

/// A valid send request, except that its times may be invalid (see `untimely`).
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSend {
    pub send: SendRequest,
    /// The files of `data.attachments`, with their contents.
    pub files: Files,
    /// `idempotencyKey` of the body.
    pub idempotency_key: Option<String>,
    /// True if the request uses the deprecated top-level member `recipients`.
    pub deprecated: bool,
    /// True if the whole send must be refused if any recipient is unknown.
    pub reject_unknown: bool,
    /// Problems of `sendAt` and `expiresAt` relative to the current time. The caller refuses the send for these problems, unless
    /// the request repeats an accepted send, whose times were valid when it was accepted.
    pub untimely: Vec<Problem>,
}

/// An invalid send request.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidRequest {
    /// Every problem of the body, including problems of its times.
    pub problems: Vec<Problem>,
    /// The template that the request names, if any, so that the caller can report problems of the template too.
    pub template: Option<TemplateRef>,
}

/// Reads the body of `POST /notifications`.
///
/// # Errors
/// Returns every problem if the request is invalid.
pub fn parse_send(body: Value, rules: SendRules) -> Result<ParsedSend, InvalidRequest> {
    let mut problems = Vec::new();
    check_plain_json("", &body, &mut problems);
    let parsed = Fields::open("", body, &mut problems).map(|fields| read_body(fields, rules, &mut problems));
    match parsed {
        Some(parsed) if problems.is_empty() => Ok(parsed),
        Some(parsed) => {
            problems.extend(parsed.untimely);
            Err(InvalidRequest { problems, template: parsed.send.template })
        }
        None => Err(InvalidRequest { problems, template: None }),
    }
}

fn read_body(mut body: Fields, rules: SendRules, problems: &mut Vec<Problem>) -> ParsedSend {
    let notification = read_notification(&mut body, rules.strict, problems);
    let Audience { recipients, topics, exclude, deprecated } =
        read_audience(&mut body, rules.strict, problems);
    let Notification { mut content, template, category } = notification;
    let category = body.identifier("category", problems).or(category);
    let files = read_data(&mut body, &mut content.data, rules.strict, problems);
    let (channels, overrides) = overrides::read(&mut body, rules.strict, problems);
    if rules.strict {
        check_content_ids(&overrides, &files, problems);
    }
    let proven_targets = body.flag("provenTargets", problems).unwrap_or(false);
    let send_at = body.time("sendAt", problems).filter(|&at| at > rules.now);
    let expires_at = body.time("expiresAt", problems);
    let untimely = check_times(send_at, expires_at, rules.now);
    let lane = read_enum(
        &mut body,
        "lane",
        &[("transactional", Lane::Transactional), ("bulk", Lane::Bulk)],
        problems,
    );
    let reject = read_enum(&mut body, "onUnknownRecipient", &[("skip", false), ("reject", true)], problems);
    let idempotency_key = read_key(&mut body, problems);
    body.finish(rules.strict, problems);
    let attachments = files.list.clone();
    let additional = json_size(&overrides) + json_size(&attachments);
    // A topic may have any number of subscribers. Its sends may be as large as sends to the maximum number of named recipients.
    let counted = if topics.is_empty() { recipients.len() } else { MAX_RECIPIENTS };
    check_fan_out(&content, additional, counted, problems);
    let lane = match lane {
        Some(Lane::Transactional) | None if recipients.len() > TRANSACTIONAL_RECIPIENTS => Lane::Bulk,
        lane => lane.unwrap_or(Lane::Transactional),
    };
    let send = SendRequest {
        content,
        template,
        category,
        recipients,
        topics,
        exclude,
        channels,
        proven_targets,
        overrides,
        attachments,
        send_at,
        expires_at,
        lane,
        idempotency: None,
    };
    ParsedSend { send, files, idempotency_key, deprecated, reject_unknown: reject.unwrap_or(false), untimely }
}

/// Reports ids of files that the HTML of the send refers to and that no file has.
fn check_content_ids(overrides: &Overrides, files: &Files, problems: &mut Vec<Problem>) {
    let html = overrides.email().and_then(|email| email.html.as_deref()).unwrap_or_default();
    for id in content_ids::missing(html, &files.list) {
        let path = "override.channel.email.html";
        let message =
            format!("{path} refers to cid:{id}, but no file in data.attachments has this contentId");
        problems.push(Problem::new(path, "unknown_content_id", message));
    }
}

#[derive(Default)]
struct Notification {
    content: InAppContent,
    template: Option<TemplateRef>,
    category: Option<String>,
}

fn read_notification(body: &mut Fields, strict: bool, problems: &mut Vec<Problem>) -> Notification {
    let before = problems.len();
    let Some(mut fields) = body.object("notification", problems) else {
        if problems.len() == before {
            problems.push(Problem::new("notification", "required", "notification is required"));
        }
        return Notification::default();
    };
    let named = ["templateIdentifier", "templateId", "workflow"].iter().any(|key| fields.has(key));
    let title_given = fields.has("title");
    let content = InAppContent {
        title: fields.string("title", MAX_TITLE, problems),
        message: fields.string("message", MAX_MESSAGE, problems),
        icon: fields.icon("icon", MAX_REFERENCE, problems),
        url: fields.link("url", MAX_REFERENCE, problems),
        data: read_object(&mut fields, "data", problems),
        blocks: fields.array("blocks", problems).unwrap_or_default(),
    };
    for (index, _) in content.blocks.iter().enumerate().filter(|(_, block)| !block.is_object()) {
        let path = format!("notification.blocks[{index}]");
        problems.push(Problem::new(&path, "invalid_type", format!("{path} must be an object")));
    }
    let title_missing = !title_given || content.title.as_deref() == Some("");
    let template = read_template(&mut fields, strict, problems);
    let category = fields.identifier("category", problems);
    fields.finish(strict, problems);
    if !named && title_missing {
        let message =
            "notification.title is required unless notification.templateIdentifier names a template";
        problems.push(Problem::new("notification.title", "required", message));
    }
    Notification { content, template, category }
}

fn read_template(fields: &mut Fields, strict: bool, problems: &mut Vec<Problem>) -> Option<TemplateRef> {
    let identifier = fields.identifier("templateIdentifier", problems);
    let workflow = fields.object("workflow", problems).and_then(|mut workflow| {
        let identifier = workflow.identifier("identifier", problems);
        workflow.finish(strict, problems);
        identifier
    });
    if let Some(id) = fields.take("templateId") {
        match id.as_i64() {
            Some(id) if identifier.is_none() && workflow.is_none() => {
                return Some(TemplateRef::Id(TemplateId(id)));
            }
            Some(_) => {}
            None => {
                let message = "notification.templateId must be a whole number";
                problems.push(Problem::new("notification.templateId", "invalid_type", message));
            }
        }
    }
    identifier.or(workflow).map(TemplateRef::Identifier)
}

/// Recipients and topics of a send.
struct Audience {
    recipients: Vec<Recipient>,
    topics: Vec<String>,
    exclude: Vec<String>,
    /// True if the body has the deprecated member `recipients`.
    deprecated: bool,
}

fn read_audience(body: &mut Fields, strict: bool, problems: &mut Vec<Problem>) -> Audience {
    let mut lists = Vec::new();
    let (mut topics, mut exclude) = (Vec::new(), Vec::new());
    let before = problems.len();
    let deprecated = body.has("recipients");
    if let Some(mut send_to) = body.object("sendTo", problems) {
        lists.extend(send_to.array("recipients", problems).map(|list| ("sendTo.recipients", list)));
        (topics, exclude) = topics::read(&mut send_to, problems);
        send_to.finish(strict, problems);
    }
    lists.extend(body.array("recipients", problems).map(|list| ("recipients", list)));

    let count: usize = lists.iter().map(|(_, list)| list.len()).sum();
    if topics.is_empty() && count == 0 && problems.len() == before {
        let message = "sendTo is required and must name at least one recipient or topic";
        problems.push(Problem::new("sendTo.recipients", "required", message));
    }
    let recipients = read_recipients(lists, count, strict, problems);
    topics::check_excluded(&exclude, &recipients, problems);
    Audience { recipients, topics, exclude, deprecated }
}

fn read_recipients(
    lists: Vec<(&'static str, Vec<Value>)>,
    count: usize,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Vec<Recipient> {
    if count > MAX_RECIPIENTS {
        let message =
            format!("sendTo.recipients names {count} recipients; at most {MAX_RECIPIENTS} are allowed");
        problems.push(Problem::new("sendTo.recipients", "too_many", message));
        return Vec::new();
    }
    let mut seen = HashSet::with_capacity(count);
    let mut recipients = Vec::with_capacity(count);
    for (path, list) in lists {
        for (index, item) in list.into_iter().enumerate() {
            let recipient = read_recipient(|| format!("{path}[{index}]"), item, strict, problems);
            recipients.extend(recipient.filter(|recipient| seen.insert(recipient.identifier.clone())));
        }
    }
    recipients
}

fn read_recipient(
    path: impl Fn() -> String,
    item: Value,
    strict: bool,
    problems: &mut Vec<Problem>,
) -> Option<Recipient> {
    match item {
        Value::String(text) if is_plain_identifier(&text) => Some(Recipient::plain(text)),
        Value::String(text) => check_identifier(&path(), text, problems).map(Recipient::plain),
        Value::Object(_) => {
            let path = path();
            let mut fields = Fields::open(&path, item, problems)?;
            let identifier = fields.required_identifier("identifier", problems);
            let data = read_object(&mut fields, "data", problems);
            if data.contains_key("attachments") {
                let path = format!("{path}.data.attachments");
                let message =
                    format!("{path} is not allowed for a single recipient; put files into data.attachments");
                problems.push(Problem::new(path, "not_allowed", message));
            }
            let pairs = fields.rest();
            profile::check(&path, &pairs, problems);
            if strict {
                problems.extend(profile::malformed(&path, &pairs));
            }
            if json_size(&pairs) > MAX_PROFILE {
                let message = format!("{path} is a profile of more than {MAX_PROFILE} bytes");
                problems.push(Problem::new(&path, "too_long", message));
            }
            identifier.map(|identifier| Recipient { identifier, profile: Some(pairs), data })
        }
        _ => {
            let path = path();
            let message = format!("{path} must be a user identifier or an object with one");
            problems.push(Problem::new(path, "invalid_type", message));
            None
        }
    }
}

// Checks an identifier without building the path that a problem would name. Most recipients are valid and need no path.
fn is_plain_identifier(text: &str) -> bool {
    (1..=MAX_IDENTIFIER).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn read_data(body: &mut Fields, data: &mut Object, strict: bool, problems: &mut Vec<Problem>) -> Files {
    data.extend(read_object(body, "data", problems));
    let files = attachments::take(data, strict, problems);
    let size = json_size(data);
    if size > MAX_DATA {
        problems.push(Problem::new(
            "data",
            "too_long",
            format!("data has {size} bytes; at most {MAX_DATA} are allowed"),
        ));
    }
    files
}

fn read_object(fields: &mut Fields, key: &str, problems: &mut Vec<Problem>) -> Object {
    fields.free_object(key, problems).unwrap_or_default()
}

fn check_times(send_at: Option<Timestamp>, expires_at: Option<Timestamp>, now: Timestamp) -> Vec<Problem> {
    let mut untimely = Vec::new();
    if send_at.is_some_and(|at| at > now + MAX_AHEAD) {
        untimely.push(Problem::new("sendAt", "too_far", "sendAt must be at most 90 days ahead"));
    }
    if expires_at.is_some_and(|at| at <= send_at.unwrap_or(now)) {
        let message = "expiresAt must be later than now and than sendAt";
        untimely.push(Problem::new("expiresAt", "past", message));
    }
    untimely
}

fn read_enum<T: Copy>(
    body: &mut Fields,
    key: &str,
    values: &[(&str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let given = body.take(key)?;
    let found = given.as_str().and_then(|text| values.iter().find(|(name, _)| *name == text));
    if found.is_none() {
        let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
        problems.push(Problem::new(
            key,
            "unknown_value",
            format!("{key} must be one of {}", names.join(", ")),
        ));
    }
    found.map(|(_, value)| *value)
}

fn read_key(body: &mut Fields, problems: &mut Vec<Problem>) -> Option<String> {
    let key = body.string("idempotencyKey", MAX_IDENTIFIER, problems)?;
    if !is_idempotency_key(&key) {
        let message = "idempotencyKey must have 1 to 255 visible ASCII characters";
        problems.push(Problem::new("idempotencyKey", "invalid_character", message));
        return None;
    }
    Some(key)
}

/// Returns true if `key` is a valid Idempotency-Key: 1 to 255 visible ASCII characters.
#[must_use]
pub fn is_idempotency_key(key: &str) -> bool {
    (1..=MAX_IDENTIFIER).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reports a problem if the content is too large for this number of recipients ([`MAX_FAN_OUT`]). `additional` is the size of the
/// overrides and the list of attachments, which every recipient gets too.
fn check_fan_out(content: &InAppContent, additional: usize, recipients: usize, problems: &mut Vec<Problem>) {
    let texts = [&content.title, &content.message, &content.icon, &content.url];
    let text: usize = texts.iter().filter_map(|text| text.as_ref().map(String::len)).sum();
    let size = text + json_size(&content.data) + json_size(&content.blocks) + additional;
    if size.saturating_mul(recipients) > MAX_FAN_OUT {
        let message = format!(
            "{recipients} recipients × {size} bytes of content exceed {MAX_FAN_OUT} bytes; split the send"
        );
        problems.push(Problem::new("sendTo.recipients", "too_large", message));
    }
}
