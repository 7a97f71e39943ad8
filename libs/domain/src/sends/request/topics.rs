//! `sendTo.topics` and `sendTo.exclude`.

use std::collections::HashSet;

use serde_json::Value;

use crate::Problem;
use crate::fields::{Fields, check_identifier};
use crate::send::Recipient;
use crate::topic::check_topic_identifier;

/// Maximum number of topics of one send.
pub const MAX_TOPICS: usize = 50;
/// Maximum number of users that one send excludes.
pub const MAX_EXCLUDED: usize = 1_000;
/// Reads the topics of a send, and the identifiers of the subscribers that it excludes.
pub(super) fn read(send_to: &mut Fields, problems: &mut Vec<Problem>) -> (Vec<String>, Vec<String>) {
    let before = problems.len();
    let topics = read_names(send_to, "topics", MAX_TOPICS, check_topic_identifier, problems);
    let exclude = read_names(send_to, "exclude", MAX_EXCLUDED, check_identifier, problems);
    if topics.is_empty() && !exclude.is_empty() && problems.len() == before {
        let message = "sendTo.exclude leaves out subscribers of sendTo.topics; name topics, or omit it";
        problems.push(Problem::new("sendTo.exclude", "not_allowed", message));
    }
    (topics, exclude)
}

/// Reports excluded users that are also recipients of the send.
pub(super) fn check_excluded(exclude: &[String], recipients: &[Recipient], problems: &mut Vec<Problem>) {
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
    fields: &mut Fields,
    key: &str,
    most: usize,
    check: fn(&str, String, &mut Vec<Problem>) -> Option<String>,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let path = format!("sendTo.{key}");
    let list = fields.array(key, problems).unwrap_or_default();
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
