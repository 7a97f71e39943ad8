use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders, PartType};
use serde::Serialize;

use super::{Capture, Summary};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CaptureView<'a> {
    id: String,
    channel: &'a str,
    received_at: Timestamp,
    from: &'a str,
    to: &'a [String],
    headers: BTreeMap<String, Vec<String>>,
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
    attachments: Vec<AttachmentView>,
    raw: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentView {
    name: Option<String>,
    content_type: Option<String>,
    size: usize,
}

impl<'a> CaptureView<'a> {
    pub(super) fn of(capture: &'a Capture) -> Self {
        // Only an email over SMTP is an RFC 5322 message that can be parsed. An email over HTTP has a summary instead.
        if capture.channel != "email" || capture.summary != Summary::default() {
            return CaptureView::plain(capture);
        }
        let message = MessageParser::default().parse(&capture.raw).unwrap_or_default();
        CaptureView {
            id: capture.id.to_string(),
            channel: &capture.channel,
            received_at: capture.received_at,
            from: &capture.from,
            to: &capture.to,
            headers: headers(&message),
            subject: message.subject().map(str::to_owned),
            text: message.text_bodies().find_map(text_of),
            html: message.html_bodies().find_map(html_of),
            attachments: message.attachments().map(attachment).collect(),
            raw: STANDARD.encode(&capture.raw),
        }
    }

    fn plain(capture: &'a Capture) -> Self {
        let summary = capture.summary.clone();
        CaptureView {
            id: capture.id.to_string(),
            channel: &capture.channel,
            received_at: capture.received_at,
            from: &capture.from,
            to: &capture.to,
            headers: summary.headers,
            subject: summary.subject,
            text: summary.text,
            html: None,
            attachments: Vec::new(),
            raw: STANDARD.encode(&capture.raw),
        }
    }
}

/// Returns the header fields, unfolded (RFC 5322 section 2.2.3) but not decoded.
fn headers(message: &Message<'_>) -> BTreeMap<String, Vec<String>> {
    let mut headers = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in message.headers_raw() {
        let value = value.replace("\r\n", "").trim().to_owned();
        headers.entry(name.to_ascii_lowercase()).or_default().push(value);
    }
    headers
}

// If an email has no plain text, `text_bodies` returns its HTML part; if it has no HTML, `html_bodies` returns its
// plain text. Only parts of the right type are shown.
fn text_of(part: &MessagePart<'_>) -> Option<String> {
    match &part.body {
        PartType::Text(text) => Some(text.to_string()),
        _ => None,
    }
}

fn html_of(part: &MessagePart<'_>) -> Option<String> {
    match &part.body {
        PartType::Html(html) => Some(html.to_string()),
        _ => None,
    }
}

fn attachment(part: &MessagePart<'_>) -> AttachmentView {
    let content_type = part.content_type().map(|kind| match kind.subtype() {
        Some(subtype) => format!("{}/{subtype}", kind.ctype()),
        None => kind.ctype().to_owned(),
    });
    AttachmentView { name: part.attachment_name().map(str::to_owned), content_type, size: part.len() }
}
