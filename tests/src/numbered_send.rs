//! Numbered sends. Each has its number in its title and text, so that a test can match a message at a provider to its send.

use serde_json::{Value, json};
use stand_ins::outbox::Capture;

const NAME: &str = "notice-";
const DIGITS: usize = 7;

/// Title of the send with this number.
pub fn title(number: usize) -> String {
    format!("{NAME}{number:0DIGITS$}")
}

/// Body of the request for the send with this number.
pub fn body(number: usize, recipients: &[String], channels: &[&str], lane: &str) -> Value {
    let title = title(number);
    json!({
        "notification": {"title": title, "message": format!("{title} is on its way.")},
        "sendTo": {"recipients": recipients},
        "override": {"channels": channels},
        "lane": lane,
    })
}

/// Finds the title in a message that a provider received.
///
/// # Panics
/// The message contains no title.
pub fn title_in(capture: &Capture) -> String {
    let raw = String::from_utf8_lossy(&capture.raw);
    let summary = &capture.summary;
    let texts = [summary.subject.as_deref(), summary.text.as_deref(), Some(&raw)];
    let mut found = texts.into_iter().flatten().filter_map(title_of);
    found.next().unwrap_or_else(|| panic!("the message contains no title of a numbered send: {capture:?}"))
}

fn title_of(text: &str) -> Option<String> {
    let start = text.find(NAME)?;
    Some(text.get(start..start + NAME.len() + DIGITS)?.to_owned())
}
