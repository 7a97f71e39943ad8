//! Content of an email, checked line by line as strictly as the RFCs allow.

use super::wire::Flaw;

/// Header fields that an email may have only once (RFC 5322 section 3.6, RFC 2045, RFC 2369), in lower case.
const ONCE: [&str; 15] = [
    "bcc",
    "cc",
    "content-transfer-encoding",
    "content-type",
    "date",
    "from",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "mime-version",
    "reply-to",
    "sender",
    "subject",
    "to",
    "x-smtpapi",
];

pub(super) struct Content {
    /// Lines received so far, without dot-stuffing.
    pub(super) lines: Vec<u8>,
    max_size: usize,
    after_whole_line: bool,
    in_headers: bool,
    /// Names of the header fields received so far, in lower case.
    names: Vec<String>,
    raw_headers: bool,
    flaw: Option<&'static str>,
    too_big: bool,
}

impl Content {
    pub(super) fn new(max_size: usize) -> Self {
        Content {
            lines: Vec::new(),
            max_size,
            after_whole_line: true,
            in_headers: true,
            names: Vec::new(),
            raw_headers: false,
            flaw: None,
            too_big: false,
        }
    }

    /// Adds a line. Returns true if the line is the final dot, which must stand alone between two CRLF.
    pub(super) fn take(&mut self, line: &[u8], read: Result<(), Flaw>) -> bool {
        let starts_line = std::mem::replace(&mut self.after_whole_line, read != Err(Flaw::BareLf));
        self.flaw = self.flaw.or(read.err().map(Flaw::text));
        if read.is_ok() && starts_line && line == b"." {
            return true;
        }
        let line = if line.first() == Some(&b'.') { line.get(1..).unwrap_or_default() } else { line };
        self.in_headers &= !line.is_empty();
        if self.in_headers {
            self.take_header(line);
        }
        self.too_big |= self.lines.len() + line.len() + 2 > self.max_size;
        if !self.too_big {
            self.lines.extend_from_slice(line);
            self.lines.extend_from_slice(b"\r\n");
        }
        false
    }

    /// Checks a line of the headers. The line may continue the field of the previous line.
    fn take_header(&mut self, line: &[u8]) {
        self.raw_headers |= !line.is_ascii();
        let flaw = match line.first() {
            Some(b' ' | b'\t') if self.names.is_empty() => Some("5.6.0 the first line continues no header"),
            Some(b' ' | b'\t') if line.trim_ascii().is_empty() => {
                Some("5.6.0 a blank line among the headers")
            }
            Some(b' ' | b'\t') => None,
            _ => self.take_name(line),
        };
        self.flaw = self.flaw.or(flaw);
    }

    fn take_name(&mut self, line: &[u8]) -> Option<&'static str> {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let is_name = !name.is_empty() && name.len() < line.len() && name.iter().all(u8::is_ascii_graphic);
        if !is_name {
            return Some("5.6.0 a line among the headers is not a header");
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let is_repeated = ONCE.contains(&name.as_str()) && self.names.contains(&name);
        self.names.push(name);
        is_repeated.then_some("5.6.0 a header that may occur once is repeated")
    }

    pub(super) fn refusal(&self, utf8: bool) -> Option<String> {
        match self.flaw {
            None if !utf8 && self.raw_headers => Some("554 5.6.9 headers beyond ASCII".to_owned()),
            Some(flaw) => Some(format!("554 {flaw}")),
            None if self.too_big => Some("552 5.3.4 message too big".to_owned()),
            None if !self.names.iter().any(|name| name == "message-id") => {
                Some("554 5.6.0 no Message-ID".to_owned())
            }
            None => None,
        }
    }
}
