use std::borrow::Cow;
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
    pub(super) id: String,
    pub(super) channel: &'a str,
    pub(super) received_at: Timestamp,
    pub(super) from: &'a str,
    pub(super) to: &'a [String],
    pub(super) headers: BTreeMap<String, Vec<String>>,
    pub(super) subject: Option<String>,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) attachments: Vec<AttachmentView>,
    pub(super) raw: String,
    #[serde(skip)]
    capture: &'a Capture,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentView {
    pub(super) name: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) size: usize,
}

impl<'a> CaptureView<'a> {
    pub(super) fn of(capture: &'a Capture) -> Self {
        let Some(message) = parsed(capture) else { return CaptureView::plain(capture) };
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
            capture,
        }
    }

    /// The message as received. Octets that are not UTF-8 are replaced.
    pub(super) fn raw_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(&self.capture.raw)
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
            capture,
        }
    }
}

/// Returns None for a message that has a summary instead: only an email over SMTP is an RFC 5322 message.
fn parsed(capture: &Capture) -> Option<Message<'_>> {
    (capture.channel == "email" && capture.summary == Summary::default())
        .then(|| MessageParser::default().parse(&capture.raw).unwrap_or_default())
}

/// Maximum size of the HTML of an email with its images, in bytes.
const MOST_HTML: usize = 32 << 20;

/// Returns the HTML of an email. References to images of the same email (RFC 2392) become `data:` URLs.
pub(super) fn html_with_images(capture: &Capture) -> Option<String> {
    let message = parsed(capture)?;
    let mut html = message.html_bodies().find_map(html_of)?;
    for part in message.attachments() {
        let (Some(id), Some(kind)) = (part.content_id(), part.content_type()) else { continue };
        let reference = format!("cid:{}", id.trim_matches(['<', '>']));
        if let ("image", Some(subtype)) = (kind.ctype(), kind.subtype()) {
            let image = format!("data:image/{subtype};base64,{}", STANDARD.encode(part.contents()));
            // An email can refer to one image thousands of times.
            let grown = html.len() + html.matches(&reference).count() * image.len();
            if reference != "cid:" && grown <= MOST_HTML {
                html = html.replace(&reference, &image);
            }
        }
    }
    Some(html)
}

/// Returns the content of an attachment by its position.
pub(super) fn attachment_of(capture: &Capture, number: u32) -> Option<Vec<u8>> {
    Some(parsed(capture)?.attachment(number)?.contents().to_vec())
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
