//! Wire format of an email (RFC 5322 and MIME).

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use domain::content::Attachment;
use lettre::Address;
use lettre::message::header::{
    Cc, ContentDisposition, ContentTransferEncoding, ContentType, Date, From, Header, HeaderName,
    HeaderValue, Headers, ReplyTo, To,
};
use lettre::message::{Body, Mailboxes};
use tokio::sync::OwnedSemaphorePermit;

use crate::dkim::Signer;
use crate::encoded_words;
use crate::letter::Letter;
use crate::letter_error::LetterError;

/// Longest line in octets, without its CRLF (RFC 5322 section 2.1.1).
const LONGEST_LINE: usize = 998;

/// An email as SMTP sends it: envelope and content.
#[derive(Debug)]
pub(crate) struct OutgoingMail {
    /// Sender of the envelope.
    pub(crate) from: Address,
    /// Recipient of the delivery. The server's reply for this address decides the outcome of the attempt.
    pub(crate) to: Address,
    /// Further recipients of the envelope: cc and bcc.
    pub(crate) others: Vec<Address>,
    /// True if an address has a non-ASCII local part, which requires a server with SMTPUTF8 (RFC 6531).
    pub(crate) needs_utf8: bool,
    /// Content sent after DATA, without the final dot. Dots at line starts are doubled (RFC 5321 section 4.5.2).
    pub(crate) data: Data,
    /// Room for a large email in memory.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Content of an email, in which CRLF ends every line. Emails with the same attachment share its encoded text.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    head: String,
    files: Vec<(String, Arc<str>)>,
    tail: String,
}

impl Data {
    /// Number of octets that are sent.
    pub(crate) fn len(&self) -> usize {
        self.pieces().map(str::len).sum()
    }

    /// Pieces that are sent one after another.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().flat_map(|(head, content)| [head.as_str(), content]);
        std::iter::once(self.head.as_str()).chain(files).chain([self.tail.as_str()])
    }
}

impl OutgoingMail {
    /// Builds an email, and signs it if there is a signer.
    pub(crate) fn build(letter: &Letter<'_>, signer: Option<&Signer>) -> Result<Self, LetterError> {
        let mut headers = headers_of(letter)?;
        let mut body =
            String::with_capacity(letter.text.len() * 2 + letter.html.map_or(0, str::len) * 2 + 512);
        let mixed = format!("=_{}_m", letter.delivery());
        let has_files = !letter.attachments.is_empty();
        if has_files {
            write!(headers, "Content-Type: multipart/mixed;\r\n boundary=\"{mixed}\"\r\n").map_err(build)?;
            write!(body, "--{mixed}\r\n").map_err(build)?;
        }
        // If there are attachments, the text is one part of a multipart body, and the text's headers go into that body.
        write_text(letter, if has_files { None } else { Some(&mut headers) }, &mut body)?;
        let mut files = Vec::with_capacity(letter.attachments.len());
        for (file, content) in &letter.attachments {
            files.push((file_head(&mixed, file)?, Arc::clone(content)));
        }
        let tail = if has_files { format!("--{mixed}--\r\n") } else { String::new() };
        if !(is_made_of_lines(&headers) && is_made_of_lines(&body)) {
            return Err(LetterError::Build);
        }
        let mut signature = String::new();
        if let Some(signer) = signer {
            let in_files = files.iter().flat_map(|(head, content)| [head.as_str(), content]);
            let whole = std::iter::once(body.as_str()).chain(in_files).chain([tail.as_str()]);
            let at = u64::try_from(letter.date.millis()).unwrap_or_default() / 1_000;
            signature = signer.sign(&headers, whole, at).ok_or(LetterError::Build)?;
        }
        // Double the dots at line starts only now: the signature must cover the lines without the doubled dots.
        let mut head = String::with_capacity(signature.len() + headers.len() + body.len() + 1024);
        for part in [signature.as_str(), headers.as_str(), "\r\n", body.as_str()] {
            push_stuffed(&mut head, part);
        }
        for (head, _) in &mut files {
            *head = stuffed(head);
        }
        let others: Vec<Address> = letter.cc.iter().chain(&letter.bcc).cloned().collect();
        let from = letter.identity.from.email.clone();
        let to = letter.to.clone();
        // Only addresses can make the headers non-ASCII; all other values are encoded.
        let needs_utf8 =
            !headers.is_ascii() || ![&from, &to].into_iter().chain(&others).all(|to| to.user().is_ascii());
        Ok(OutgoingMail { from, to, others, needs_utf8, data: Data { head, files, tail }, permit: None })
    }
}

/// Writes all headers except those that describe the content, such as `Content-Type`.
fn headers_of(letter: &Letter<'_>) -> Result<String, LetterError> {
    let millis = u64::try_from(letter.date.millis()).unwrap_or_default();
    let mut headers = Headers::with_capacity(12);
    headers.set(Date::new(UNIX_EPOCH + Duration::from_millis(millis)));
    headers.set(From::from(Mailboxes::from(letter.identity.from.clone())));
    headers.set(To::from(mailboxes(std::slice::from_ref(&letter.to))));
    if !letter.cc.is_empty() {
        headers.set(Cc::from(mailboxes(&letter.cc)));
    }
    if let Some(reply_to) = &letter.identity.reply_to {
        headers.set(ReplyTo::from(Mailboxes::from(reply_to.clone())));
    }
    insert(&mut headers, "Subject", letter.subject)?;
    for (name, value) in &letter.headers {
        insert(&mut headers, name, value)?;
    }
    let mut out = String::with_capacity(1024);
    write!(out, "{headers}Message-ID: {}\r\n", letter.message_id).map_err(build)?;
    for (name, value) in letter.unsubscribe_headers() {
        write!(out, "{name}: {value}\r\n").map_err(build)?;
    }
    out.push_str("MIME-Version: 1.0\r\n");
    Ok(out)
}

fn mailboxes(addresses: &[Address]) -> Mailboxes {
    addresses.iter().cloned().map(lettre::message::Mailbox::from).collect()
}

fn insert(headers: &mut Headers, name: &str, value: &str) -> Result<(), LetterError> {
    let name = HeaderName::new_from_ascii(name.to_owned()).map_err(|_| LetterError::Header)?;
    let value = value.to_owned();
    headers.insert_raw(if encoded_words::needed(&value) {
        let encoded = encoded_words::encode(&value);
        HeaderValue::dangerous_new_pre_encoded(name, value, encoded)
    } else {
        HeaderValue::new(name, value)
    });
    Ok(())
}

/// Writes the text and, if there is one, the HTML alternative. The headers of the outermost part are appended to
/// `outer`, or to `body` if `outer` is None.
fn write_text(letter: &Letter<'_>, outer: Option<&mut String>, body: &mut String) -> Result<(), LetterError> {
    let Some(html) = letter.html else {
        return write_part(ContentType::TEXT_PLAIN, &letter.text, outer, body);
    };
    let boundary = format!("=_{}_a", letter.delivery());
    let head = format!("Content-Type: multipart/alternative;\r\n boundary=\"{boundary}\"\r\n");
    match outer {
        Some(outer) => outer.push_str(&head),
        None => write!(body, "{head}\r\n").map_err(build)?,
    }
    for (kind, content) in [(ContentType::TEXT_PLAIN, &*letter.text), (ContentType::TEXT_HTML, html)] {
        write!(body, "--{boundary}\r\n").map_err(build)?;
        write_part(kind, content, None, body)?;
    }
    write!(body, "--{boundary}--\r\n").map_err(build)
}

/// Writes one part. The content is always encoded, because a lax server could mistake unencoded content for the end of
/// the message.
fn write_part(
    kind: ContentType,
    content: &str,
    outer: Option<&mut String>,
    body: &mut String,
) -> Result<(), LetterError> {
    let beyond_ascii = content.bytes().filter(|byte| !byte.is_ascii()).count();
    // Quoted-printable writes a non-ASCII octet as three octets; base64 writes any three octets as four. So base64 is
    // shorter if more than a sixth of the octets are non-ASCII.
    let encoding = if beyond_ascii * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    let encoded =
        Body::new_with_encoding(with_crlf(content).into_bytes(), encoding).map_err(|_| LetterError::Build)?;
    let mut head = Headers::with_capacity(2);
    head.set(kind);
    head.set(encoding);
    let is_alone = outer.is_some();
    match outer {
        Some(outer) => write!(outer, "{head}").map_err(build)?,
        None => write!(body, "{head}\r\n").map_err(build)?,
    }
    body.push_str(str::from_utf8(encoded.as_ref()).map_err(|_| LetterError::Build)?);
    // The CRLF before a boundary is part of the boundary. So a part of a multipart body gets one more CRLF, even if its
    // content ends with a CRLF.
    if !(is_alone && body.ends_with("\r\n")) {
        body.push_str("\r\n");
    }
    Ok(())
}

/// Writes the headers of an attachment. Attachments are encoded in base64, which the types `multipart/` and `message/`
/// forbid (RFC 2045 section 6.4). Attachments of these types are sent as `application/octet-stream`.
fn file_head(boundary: &str, file: &Attachment) -> Result<String, LetterError> {
    let contains_messages = ["multipart/", "message/"]
        .iter()
        .any(|family| file.content_type.to_ascii_lowercase().starts_with(family));
    let kind = if contains_messages || file.content_type.contains(['\r', '\n', '\0']) {
        None
    } else {
        ContentType::parse(&file.content_type).ok()
    };
    let kind = kind.map_or_else(|| "application/octet-stream".to_owned(), |kind| value_of(&kind));
    let disposition = value_of(&ContentDisposition::attachment(&file.name));
    let head = format!(
        "--{boundary}\r\nContent-Type: {kind}\r\nContent-Disposition: {disposition}\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n"
    );
    is_made_of_lines(&head).then_some(head).ok_or(LetterError::Build)
}

fn value_of(header: &impl Header) -> String {
    let mut headers = Headers::with_capacity(1);
    headers.set(header.clone());
    let line = headers.to_string();
    line.split_once(": ").map_or_else(String::new, |(_, value)| value.trim_end().to_owned())
}

/// Converts every CRLF, lone CR and lone LF to CRLF.
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

/// Returns true if every CR and LF is part of a CRLF, and no line exceeds 998 octets (RFC 5322 section 2.1.1).
fn is_made_of_lines(text: &str) -> bool {
    let mut before = 0;
    let paired = text.bytes().all(|byte| {
        let paired = (byte == b'\n') == (before == b'\r');
        before = byte;
        paired
    });
    paired && before != b'\r' && text.split("\r\n").all(|line| line.len() <= LONGEST_LINE)
}

/// Appends text, and doubles each dot at the start of a line.
fn push_stuffed(out: &mut String, text: &str) {
    for line in text.split_inclusive('\n') {
        if line.starts_with('.') {
            out.push('.');
        }
        out.push_str(line);
    }
}

fn stuffed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_stuffed(&mut out, text);
    out
}

fn build(_: fmt::Error) -> LetterError {
    LetterError::Build
}
