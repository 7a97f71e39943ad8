//! Wire format of an email (RFC 5322 and MIME).

use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use lettre::Address;
use lettre::message::header::{Cc, Date, From, Header, HeaderName, HeaderValue, Headers, ReplyTo, To};
use lettre::message::{Mailbox, Mailboxes};

use crate::dkim::Signer;
use crate::encoded_words;
use crate::large_emails::LargeEmail;
use crate::letter::Letter;
use crate::letter_error::LetterError;
use crate::parts::{self, Piece};

/// Longest line in octets, without its CRLF (RFC 5322 section 2.1.1).
const LONGEST_LINE: usize = 998;

#[derive(Debug)]
pub(crate) struct OutgoingMail {
    pub(crate) from: Address,
    /// Recipient of the delivery. The server's reply for this address decides the outcome of the attempt.
    pub(crate) to: Address,
    pub(crate) others: Vec<Address>,
    /// True if an address has a non-ASCII local part, which requires a server with SMTPUTF8 (RFC 6531).
    pub(crate) needs_utf8: bool,
    /// Content sent after DATA, without the final dot. Dots at line starts are doubled (RFC 5321 section 4.5.2).
    pub(crate) data: Data,
    pub(crate) room: Option<LargeEmail>,
}

/// Content of an email, in which CRLF ends every line.
#[derive(Clone, Debug)]
pub(crate) struct Data(Vec<Piece>);

impl Data {
    /// Size in octets.
    pub(crate) fn len(&self) -> usize {
        self.pieces().map(str::len).sum()
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Piece::as_str)
    }
}

impl OutgoingMail {
    pub(crate) fn build(letter: &Letter<'_>, signer: Option<&Signer>) -> Result<Self, LetterError> {
        let mut headers = headers_of(letter)?;
        let body = parts::write(letter, &mut headers)?;
        let dots_of = |piece: &Piece| piece.text().map_or(Some(Vec::new()), dotted_lines);
        let dots: Option<Vec<_>> = body.iter().map(dots_of).collect();
        let (Some(_), Some(dots)) = (dotted_lines(&headers), dots) else { return Err(LetterError::Build) };
        let mut signature = String::new();
        if let Some(signer) = signer {
            let at = u64::try_from(letter.date.millis()).unwrap_or_default() / 1_000;
            let whole = body.iter().map(Piece::as_str);
            signature = signer.sign(&headers, whole, at).ok_or(LetterError::Build)?;
        }
        // Double the dots at line starts only now: the signature must cover the lines without the doubled dots.
        let head = [signature.as_str(), headers.as_str(), "\r\n"].concat();
        let head_dots = dotted_lines(&head).ok_or(LetterError::Build)?;
        let mut pieces = vec![Piece::Text(stuffed(head, &head_dots))];
        pieces.extend(body.into_iter().zip(dots).map(|(piece, dots)| match piece {
            Piece::Text(text) => Piece::Text(stuffed(text, &dots)),
            file @ Piece::File(_) => file,
        }));
        let others: Vec<Address> = letter.cc.iter().chain(&letter.bcc).cloned().collect();
        let from = letter.identity.from.email.clone();
        let to = letter.to.clone();
        // Only addresses can make the headers non-ASCII; all other values are encoded.
        let needs_utf8 =
            !headers.is_ascii() || ![&from, &to].into_iter().chain(&others).all(|to| to.user().is_ascii());
        Ok(OutgoingMail { from, to, others, needs_utf8, data: Data(pieces), room: None })
    }
}

fn headers_of(letter: &Letter<'_>) -> Result<String, LetterError> {
    let millis = u64::try_from(letter.date.millis()).unwrap_or_default();
    let mut headers = Headers::with_capacity(12);
    headers.set(Date::new(UNIX_EPOCH + Duration::from_millis(millis)));
    headers.set(From::from(Mailboxes::from(letter.identity.from.clone())));
    literal_name(&mut headers, From::name(), &letter.identity.from);
    headers.set(To::from(mailboxes(std::slice::from_ref(&letter.to))));
    if !letter.cc.is_empty() {
        headers.set(Cc::from(mailboxes(&letter.cc)));
    }
    if let Some(reply_to) = &letter.identity.reply_to {
        headers.set(ReplyTo::from(Mailboxes::from(reply_to.clone())));
        literal_name(&mut headers, ReplyTo::name(), reply_to);
    }
    insert(&mut headers, "Subject", letter.subject)?;
    for (name, value) in letter.automatic_headers() {
        insert(&mut headers, name, value)?;
    }
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
    addresses.iter().cloned().map(Mailbox::from).collect()
}

/// Writes the header of one mailbox again if its name must be encoded: the library would write it as a quoted string, in which
/// programs decode encoded words too.
fn literal_name(headers: &mut Headers, header: HeaderName, mailbox: &Mailbox) {
    let Some(name) = mailbox.name.as_ref().filter(|name| encoded_words::needed(name)) else { return };
    let encoded = format!("{}\r\n <{}>", encoded_words::encode(&header, name), mailbox.email);
    headers.insert_raw(HeaderValue::dangerous_new_pre_encoded(header, mailbox.to_string(), encoded));
}

fn insert(headers: &mut Headers, name: &str, value: &str) -> Result<(), LetterError> {
    let name = HeaderName::new_from_ascii(name.to_owned()).map_err(|_| LetterError::Header)?;
    let value = value.to_owned();
    headers.insert_raw(if encoded_words::needed(&value) {
        let encoded = encoded_words::encode(&name, &value);
        HeaderValue::dangerous_new_pre_encoded(name, value, encoded)
    } else {
        HeaderValue::new(name, value)
    });
    Ok(())
}

/// Returns the offsets of the lines that begin with a dot. None unless every CR and LF is part of a CRLF, and no line exceeds 998 octets
/// (RFC 5322 section 2.1.1).
fn dotted_lines(text: &str) -> Option<Vec<usize>> {
    let (mut dots, mut at, mut ended) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        let content = match line.strip_suffix('\n') {
            Some(content) => {
                ended += 1;
                content.strip_suffix('\r')?
            }
            None => line,
        };
        if content.len() > LONGEST_LINE {
            return None;
        }
        if content.starts_with('.') {
            dots.push(at);
        }
        at += line.len();
    }
    (parts::count(text, |octet| octet == b'\r') == ended).then_some(dots)
}

/// Doubles the dots at these offsets. Few texts have any.
fn stuffed(text: String, dots: &[usize]) -> String {
    if dots.is_empty() {
        return text;
    }
    let mut out = String::with_capacity(text.len() + dots.len());
    let mut from = 0;
    for &dot in dots {
        out.push_str(text.get(from..dot).unwrap_or_default());
        out.push('.');
        from = dot;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn build(_: fmt::Error) -> LetterError {
    LetterError::Build
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_must_consist_of_lines_that_fit() {
        let long = "x".repeat(LONGEST_LINE);
        for whole in ["", "a", "a\r\n", "\r\n\r\nb", &format!("{long}\r\n{long}")] {
            assert!(dotted_lines(whole).is_some(), "{whole:?}");
        }
        for broken in [
            "\r",
            "\n",
            "a\nb\r\n",
            "a\rb\r\n",
            "\r\r\n",
            "\r\n\r",
            "\n\r",
            &format!("{long}x\r\n"),
            &format!("a\r\n{long}x"),
        ] {
            assert_eq!(dotted_lines(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn dots_at_line_starts_are_doubled() {
        for (text, doubled) in
            [("a.\r\nb.c", "a.\r\nb.c"), (".", ".."), (".\r\n.\r\n..a", "..\r\n..\r\n...a")]
        {
            assert_eq!(stuffed(text.to_owned(), &dotted_lines(text).unwrap()), doubled);
        }
    }
}
