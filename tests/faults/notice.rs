//! What is sent: each notice names itself in its title and its text, so that whatever a provider took can be traced
//! back to the delivery.

use serde_json::{Value, json};
use stand_ins::outbox::Capture;

const NAME: &str = "notice-";
const DIGITS: usize = 7;

/// The title of a notice.
pub(crate) fn title(number: usize) -> String {
    format!("{NAME}{number:0DIGITS$}")
}

/// The request's body.
pub(crate) fn body(number: usize, recipients: &[String], channels: &[&str], lane: &str) -> Value {
    let title = title(number);
    json!({
        "notification": {"title": title, "message": format!("{title} is on its way.")},
        "sendTo": {"recipients": recipients},
        "override": {"channels": channels},
        "lane": lane,
    })
}

/// The title of the notice that a provider took.
pub(crate) fn title_in(capture: &Capture) -> String {
    let raw = String::from_utf8_lossy(&capture.raw);
    let summary = &capture.summary;
    let texts = [summary.subject.as_deref(), summary.text.as_deref(), Some(&raw)];
    let mut found = texts.into_iter().flatten().filter_map(title_of);
    found.next().unwrap_or_else(|| panic!("a message that names no notice: {capture:?}"))
}

fn title_of(text: &str) -> Option<String> {
    let start = text.find(NAME)?;
    Some(text.get(start..start + NAME.len() + DIGITS)?.to_owned())
}
