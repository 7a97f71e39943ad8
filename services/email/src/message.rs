//! An email as it goes over the wire.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use domain::content::EmailContent;
use domain::{DeliveryId, Timestamp};
use lettre::Address;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Body, Message, MessageBuilder, MultiPart, SinglePart};

use crate::address;
use crate::settings::SmtpSettings;

/// Envelope and content, ready to be sent.
#[derive(Clone, Debug)]
pub struct OutgoingMail {
    /// Sender of the envelope.
    pub from: Address,
    /// Recipient of the envelope.
    pub to: Address,
    /// An RFC 5322 message with every line ended by CRLF, dots doubled, and the final dot after it
    /// (RFC 5321 section 4.5.2).
    pub(crate) data: String,
}

/// Why content cannot become an email.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// The target is no address.
    #[error("the target is not an email address")]
    Address,
    /// The subject would inject headers.
    #[error("the subject contains CR, LF or NUL")]
    Subject,
    /// Neither text nor HTML.
    #[error("there is neither text nor HTML")]
    Empty,
    /// The message could not be put together.
    #[error("the message cannot be built")]
    Build,
}

impl Unsendable {
    /// What is recorded as the attempt's code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Unsendable::Address => "address",
            Unsendable::Subject | Unsendable::Empty | Unsendable::Build => "content",
        }
    }
}

impl OutgoingMail {
    /// Puts an email together. Its `Message-ID` is `<{delivery}@{domain of From}>` at every attempt.
    ///
    /// # Errors
    /// See [`Unsendable`]; all of them are for good.
    pub fn build(
        settings: &SmtpSettings,
        target: &str,
        delivery: DeliveryId,
        content: &EmailContent,
        date: Timestamp,
    ) -> Result<Self, Unsendable> {
        let to = address::parse(target).ok_or(Unsendable::Address)?;
        if content.subject.contains(['\r', '\n', '\0']) {
            return Err(Unsendable::Subject);
        }
        let from = &settings.from;
        let mut headers = Message::builder()
            .message_id(Some(format!("<{delivery}@{}>", from.email.domain())))
            .date(UNIX_EPOCH + Duration::from_millis(u64::try_from(date.millis()).unwrap_or(0)))
            .from(from.clone())
            .to(to.clone().into())
            .subject(content.subject.as_str());
        if let Some(reply_to) = &settings.reply_to {
            headers = headers.reply_to(reply_to.clone());
        }
        let message = with_body(headers, content)?;
        let message = String::from_utf8(message.formatted()).map_err(|_| Unsendable::Build)?;
        Ok(OutgoingMail { from: from.email.clone(), to, data: on_the_wire(&message)? })
    }

    /// Whether the server must know SMTPUTF8 (RFC 6531).
    pub(crate) fn needs_utf8(&self) -> bool {
        !self.data.is_ascii()
    }
}

fn with_body(headers: MessageBuilder, content: &EmailContent) -> Result<Message, Unsendable> {
    let text = content.text.as_deref().map(|text| part(ContentType::TEXT_PLAIN, text)).transpose()?;
    let html = content.html.as_deref().map(|html| part(ContentType::TEXT_HTML, html)).transpose()?;
    match (text, html) {
        (Some(text), Some(html)) => {
            headers.multipart(MultiPart::alternative().singlepart(text).singlepart(html))
        }
        (Some(only), None) | (None, Some(only)) => headers.singlepart(only),
        (None, None) => return Err(Unsendable::Empty),
    }
    .map_err(|_| Unsendable::Build)
}

/// Always encoded, so that no content can look like the end of the message to a lax server.
fn part(kind: ContentType, content: &str) -> Result<SinglePart, Unsendable> {
    let beyond_ascii = content.bytes().filter(|byte| !byte.is_ascii()).count();
    // Quoted-printable triples such octets; base64 makes four of any three.
    let encoding = if beyond_ascii * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    let body =
        Body::new_with_encoding(with_crlf(content).into_bytes(), encoding).map_err(|_| Unsendable::Build)?;
    Ok(SinglePart::builder().header(kind).body(body))
}

/// Every CRLF, lone CR and lone LF as CRLF.
fn with_crlf(content: &str) -> String {
    let mut out = String::with_capacity(content.len() + content.len() / 32);
    let mut rest = content;
    while let Some((line, after)) = rest.split_once(['\r', '\n']) {
        let ended_by_cr = rest.as_bytes().get(line.len()) == Some(&b'\r');
        rest = if ended_by_cr { after.strip_prefix('\n').unwrap_or(after) } else { after };
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.push_str(rest);
    out
}

/// Doubles the dots at line starts and adds the final one; refuses what is not made of CRLF lines.
fn on_the_wire(message: &str) -> Result<String, Unsendable> {
    let mut out = String::with_capacity(message.len() + message.len() / 64 + 8);
    for line in message.strip_suffix("\r\n").unwrap_or(message).split("\r\n") {
        if line.contains(['\r', '\n']) {
            return Err(Unsendable::Build);
        }
        let dot = if line.starts_with('.') { "." } else { "" };
        write!(out, "{dot}{line}\r\n").map_err(|_| Unsendable::Build)?;
    }
    out.push_str(".\r\n");
    Ok(out)
}
