//! Parts of an email's body (RFC 2045 and 2046). The tree has at most four levels:
//!
//! ```text
//! mixed                     if the email has attachments
//! ├─ alternative            if the text has alternatives
//! │  ├─ text/plain
//! │  ├─ related             if the HTML shows files of the email (RFC 2387)
//! │  │  ├─ text/html
//! │  │  └─ image/png …
//! │  └─ text/calendar       if a file is an invitation (RFC 6047)
//! └─ application/pdf …
//! ```

use std::fmt::{self, Write};
use std::sync::Arc;

use domain::content::Attachment;
use lettre::message::Body;
use lettre::message::header::{ContentDisposition, ContentTransferEncoding, ContentType, Header, Headers};

use crate::encoded_words;
use crate::letter::Letter;
use crate::letter_error::LetterError;
use crate::quoted_printable;

/// Piece of an email. Emails with the same file share its encoded text.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    File(Arc<String>),
}

impl Piece {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Piece::Text(text) => text,
            Piece::File(content) => content,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Piece::Text(text) => Some(text),
            Piece::File(_) => None,
        }
    }
}

enum Part<'a> {
    Text(ContentType, &'a str),
    File(String, Arc<String>),
    Multipart(&'static str, &'static str, Vec<Part<'a>>),
}

pub(crate) fn write(letter: &Letter<'_>, headers: &mut String) -> Result<Vec<Piece>, LetterError> {
    let mut body = PartWriter { pieces: Vec::new(), text: String::new(), delivery: letter.delivery() };
    body.part(&tree(letter)?, Some(headers))?;
    Ok(body.finish())
}

fn tree<'a>(letter: &'a Letter<'_>) -> Result<Part<'a>, LetterError> {
    let file = |(file, content): &(&Attachment, Arc<String>)| {
        Ok(Part::File(file_head(file, &media_type(file))?, Arc::clone(content)))
    };
    let is_shown = |file: &Attachment| letter.html.is_some() && file.content_id.is_some();
    let (shown, attached): (Vec<_>, Vec<_>) = letter.attachments.iter().partition(|(file, _)| is_shown(file));

    let mut alternatives = vec![Part::Text(ContentType::TEXT_PLAIN, &letter.text)];
    if let Some(html) = &letter.html {
        let html = Part::Text(ContentType::TEXT_HTML, html);
        alternatives.push(if shown.is_empty() {
            html
        } else {
            let files = shown.into_iter().map(file);
            let parts: Result<Vec<_>, LetterError> = std::iter::once(Ok(html)).chain(files).collect();
            Part::Multipart("related", " type=\"text/html\";", parts?)
        });
    }
    let invitation = letter.attachments.iter().find_map(|(file, content)| Some((file.method()?, content)));
    if let Some((method, content)) = invitation {
        let head = format!(
            "Content-Type: text/calendar; charset=utf-8; method={method}\r\nContent-Transfer-Encoding: base64\r\n"
        );
        alternatives.push(Part::File(head, Arc::clone(content)));
    }
    let text = match (alternatives.len(), alternatives.pop()) {
        (1, Some(text)) => text,
        (_, last) => {
            alternatives.extend(last);
            Part::Multipart("alternative", "", alternatives)
        }
    };
    if attached.is_empty() {
        return Ok(text);
    }
    let files = attached.into_iter().map(file);
    let parts: Result<Vec<_>, LetterError> = std::iter::once(Ok(text)).chain(files).collect();
    Ok(Part::Multipart("mixed", "", parts?))
}

struct PartWriter {
    pieces: Vec<Piece>,
    text: String,
    delivery: String,
}

impl PartWriter {
    /// Writes a part. Its headers are appended to `outer`, or to the body if `outer` is None.
    fn part(&mut self, part: &Part<'_>, outer: Option<&mut String>) -> Result<(), LetterError> {
        match part {
            Part::Text(kind, content) => write_text(kind, content, outer, &mut self.text),
            Part::File(head, content) => {
                write!(self.text, "{head}\r\n").map_err(build)?;
                self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
                self.pieces.push(Piece::File(Arc::clone(content)));
                Ok(())
            }
            Part::Multipart(subtype, parameters, parts) => {
                let boundary = format!("=_{}_{}", self.delivery, subtype.get(..1).unwrap_or_default());
                let head =
                    format!("Content-Type: multipart/{subtype};{parameters}\r\n boundary=\"{boundary}\"\r\n");
                match outer {
                    Some(outer) => outer.push_str(&head),
                    None => write!(self.text, "{head}\r\n").map_err(build)?,
                }
                for part in parts {
                    write!(self.text, "--{boundary}\r\n").map_err(build)?;
                    self.part(part, None)?;
                }
                write!(self.text, "--{boundary}--\r\n").map_err(build)
            }
        }
    }

    fn finish(mut self) -> Vec<Piece> {
        self.pieces.push(Piece::Text(self.text));
        self.pieces
    }
}

/// Writes a text. Its content is always encoded, because a lax server could mistake unencoded content for the end of
/// the message.
fn write_text(
    kind: &ContentType,
    content: &str,
    outer: Option<&mut String>,
    body: &mut String,
) -> Result<(), LetterError> {
    let beyond_ascii = count(content, |octet| !octet.is_ascii());
    // Quoted-printable writes a non-ASCII octet as three octets; base64 writes any three octets as four. So base64 is
    // shorter if more than a sixth of the octets are non-ASCII.
    let encoding = if beyond_ascii * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    let mut head = Headers::with_capacity(2);
    head.set(kind.clone());
    head.set(encoding);
    let is_alone = outer.is_some();
    match outer {
        Some(outer) => write!(outer, "{head}").map_err(build)?,
        None => write!(body, "{head}\r\n").map_err(build)?,
    }
    if encoding == ContentTransferEncoding::QuotedPrintable {
        quoted_printable::encode(content, body);
    } else {
        let encoded = Body::new_with_encoding(with_crlf(content).into_bytes(), encoding);
        let encoded = encoded.map_err(|_| LetterError::Build)?;
        body.push_str(str::from_utf8(encoded.as_ref()).map_err(|_| LetterError::Build)?);
    }
    // The CRLF before a boundary is part of the boundary. So a part of a multipart body gets one more CRLF, even if its
    // content ends with a CRLF.
    if !(is_alone && body.ends_with("\r\n")) {
        body.push_str("\r\n");
    }
    Ok(())
}

/// Counts matching octets.
pub(crate) fn count(text: &str, counts: impl Fn(u8) -> bool) -> usize {
    let of_chunk = |chunk: &[u8]| chunk.iter().map(|octet| u8::from(counts(*octet))).sum::<u8>();
    text.as_bytes().chunks(usize::from(u8::MAX)).map(|chunk| usize::from(of_chunk(chunk))).sum()
}

/// Files are encoded in base64, which the types `multipart/` and `message/` forbid (RFC 2045 section 6.4): such files are sent as
/// `application/octet-stream`. An attached invitation is `application/ics`, which mail programs do not show as a second event.
fn media_type(file: &Attachment) -> String {
    if file.method().is_some() {
        return "application/ics".to_owned();
    }
    let contains_messages = ["multipart/", "message/"]
        .iter()
        .any(|family| file.content_type.to_ascii_lowercase().starts_with(family));
    let kind = if contains_messages || file.content_type.contains(['\r', '\n', '\0']) {
        None
    } else {
        ContentType::parse(&file.content_type).ok()
    };
    kind.map_or_else(|| "application/octet-stream".to_owned(), |kind| value_of(&kind))
}

fn file_head(file: &Attachment, kind: &str) -> Result<String, LetterError> {
    let disposition = if file.inline { "inline" } else { "attachment" };
    let disposition = if encoded_words::needed(&file.name) {
        format!("{disposition};{}", encoded_words::extended_parameter("filename", &file.name))
    } else if file.inline {
        value_of(&ContentDisposition::inline_with_name(&file.name))
    } else {
        value_of(&ContentDisposition::attachment(&file.name))
    };
    let mut head = format!(
        "Content-Type: {kind}\r\nContent-Disposition: {disposition}\r\nContent-Transfer-Encoding: base64\r\n"
    );
    if let Some(id) = &file.content_id {
        if !Attachment::is_content_id(id) {
            return Err(LetterError::ContentId);
        }
        write!(head, "Content-ID: <{id}>\r\n").map_err(build)?;
    }
    Ok(head)
}

fn value_of(header: &impl Header) -> String {
    let mut headers = Headers::with_capacity(1);
    headers.set(header.clone());
    let line = headers.to_string();
    line.split_once(": ").map_or_else(String::new, |(_, value)| value.trim_end().to_owned())
}

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

fn build(_: fmt::Error) -> LetterError {
    LetterError::Build
}
