//! The recipients and topics of a send.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::SendBody;
use crate::body::kind::{FreeObject, Identifier, List, TopicIdentifier};
use crate::body::rest::MembersOf;
use crate::body::{Body, named};
use crate::fields::{MAX_IDENTIFIER, check_identifier};
use crate::profile::{MAX_PROFILE, ProfileSchema};
use crate::send::Recipient;
use crate::size::json_size;
use crate::topic::check_topic_identifier;
use crate::{Problem, profile};

/// Maximum number of recipients of one send.
pub const MAX_RECIPIENTS: usize = 10_000;
/// Maximum number of topics of one send.
pub const MAX_TOPICS: usize = 50;
/// Maximum number of users that one send excludes.
pub const MAX_EXCLUDED: usize = 1_000;

crate::body! {
    /// Recipients of a send.
    pub(super) struct SendTo {
        /// At least one recipient is required, here or in the deprecated `recipients` of the send, unless `topics` names a topic.
        optional recipients: List<RecipientBody, MAX_RECIPIENTS>,
        /// Topics whose subscribers are recipients too: everyone who subscribed before the send was accepted, or up to a second later, and
        /// still does when the send reaches them. Each gets the send once.
        optional topics: List<TopicIdentifier, MAX_TOPICS>,
        /// Subscribers of the topics that are not recipients, such as the person whose action the send reports. Not allowed without
        /// topics, and not for users that the send also names as recipients.
        optional exclude: List<Identifier, MAX_EXCLUDED>,
    }
}

crate::schemas! {
    /// A user: an identifier, or an identifier with a profile.
    pub(super) RecipientBody = |schemas| named(schemas, "Recipient", |schemas| json!({
        "description": "A user: an identifier, or an identifier with a profile.",
        "oneOf": [Identifier::schema(schemas), RecipientProfile::schema(schemas)],
    }));
}

crate::body! {
    /// A user with profile data. Before the send is planned, the service creates the user or merges the data into the profile.
    /// Members other than `identifier` and `data` are key-value pairs of the profile.
    struct RecipientProfile {
        required identifier: Identifier,
        /// Template variables for this recipient only.
        optional data: FreeObject,
        ..MembersOf<ProfileSchema>
    }
}

/// Recipients and topics of a send.
pub(super) struct Audience {
    pub(super) recipients: Vec<Recipient>,
    pub(super) topics: Vec<String>,
    pub(super) exclude: Vec<String>,
    /// True if the body has the deprecated member `recipients`.
    pub(super) deprecated: bool,
}

impl Audience {
    pub(super) fn read(body: &mut SendBody, strict: bool, problems: &mut Vec<Problem>) -> Audience {
        let mut lists = Vec::new();
        let (mut topics, mut exclude) = (Vec::new(), Vec::new());
        let before = problems.len();
        let deprecated = body.fields.has("recipients");
        if let Some(mut send_to) = body.send_to(problems) {
            lists.extend(send_to.recipients(problems).map(|list| ("sendTo.recipients", list)));
            (topics, exclude) = read_topics(&mut send_to, problems);
            send_to.fields.finish(strict, problems);
        }
        lists.extend(body.recipients(problems).map(|list| ("recipients", list)));

        let count: usize = lists.iter().map(|(_, list)| list.len()).sum();
        if topics.is_empty() && count == 0 && problems.len() == before {
            let message = "sendTo is required and must name at least one recipient or topic";
            problems.push(Problem::new("sendTo.recipients", "required", message));
        }
        let recipients = read_recipients(lists, count, strict, problems);
        check_excluded(&exclude, &recipients, problems);
        Audience { recipients, topics, exclude, deprecated }
    }
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
            let mut recipient = RecipientProfile::open(&path, item, problems)?;
            let identifier = recipient.identifier(problems);
            let data = recipient.data(problems).unwrap_or_default();
            if data.contains_key("attachments") {
                let path = format!("{path}.data.attachments");
                let message =
                    format!("{path} is not allowed for a single recipient; put files into data.attachments");
                problems.push(Problem::new(path, "not_allowed", message));
            }
            let pairs = recipient.fields.rest();
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

/// Reads the topics of a send, and the identifiers of the subscribers that it excludes.
fn read_topics(send_to: &mut SendTo, problems: &mut Vec<Problem>) -> (Vec<String>, Vec<String>) {
    let before = problems.len();
    let topics = send_to.topics(problems).unwrap_or_default();
    let topics = read_names("sendTo.topics", topics, MAX_TOPICS, check_topic_identifier, problems);
    let exclude = send_to.exclude(problems).unwrap_or_default();
    let exclude = read_names("sendTo.exclude", exclude, MAX_EXCLUDED, check_identifier, problems);
    if topics.is_empty() && !exclude.is_empty() && problems.len() == before {
        let message = "sendTo.exclude leaves out subscribers of sendTo.topics; name topics, or omit it";
        problems.push(Problem::new("sendTo.exclude", "not_allowed", message));
    }
    (topics, exclude)
}

/// Reports excluded users that are also recipients of the send.
fn check_excluded(exclude: &[String], recipients: &[Recipient], problems: &mut Vec<Problem>) {
    let named: HashSet<&str> = recipients.iter().map(|recipient| recipient.identifier.as_str()).collect();
    for excluded in exclude.iter().filter(|excluded| named.contains(excluded.as_str())) {
        let message = format!(
            "sendTo.exclude contains {excluded:?}, which is also a recipient; remove it from one of the lists"
        );
        problems.push(Problem::new("sendTo.exclude", "conflicting", message));
    }
}

/// Reads a list of at most `most` names, which `check` accepts. Leaves out duplicates.
fn read_names(
    path: &str,
    list: Vec<Value>,
    most: usize,
    check: fn(&str, String, &mut Vec<Problem>) -> Option<String>,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    if list.len() > most {
        let message = format!("{path} has {} elements; at most {most} are allowed", list.len());
        problems.push(Problem::new(path, "too_many", message));
        return Vec::new();
    }
    let mut names = Vec::with_capacity(list.len());
    for (index, item) in list.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        if let Value::String(text) = item {
            names.extend(check(&path, text, problems).filter(|name| !names.contains(name)));
        } else {
            let message = format!("{path} must be an identifier");
            problems.push(Problem::new(path, "invalid_type", message));
        }
    }
    names
}
