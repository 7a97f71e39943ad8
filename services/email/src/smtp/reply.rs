//! Reader of a mail server's replies (RFC 5321 section 4.2).
//!
//! The code of a reply decides, whatever its text contains and whatever its lines look like. A reply is thrown away only if none of its
//! lines begins with a code.

use std::ops::Range;

/// Maximum size of one reply in octets. A longer reply ends there: its code counts, and the rest is never read.
pub const MAX_REPLY: usize = 64 << 10;
/// First digits of codes (RFC 5321 section 4.2.1).
const CLASSES: Range<u8> = b'2'..b'6';

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Basic code, such as 550. If the lines have different codes, it is that of the last line, because a server knows its decision
    /// at the latest then.
    pub code: u16,
    /// Text without the codes. Line feeds separate its lines, and octets that are not UTF-8 are replaced. A line starts with the enhanced
    /// code if the server sent one.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

#[derive(Debug, Default)]
pub struct ReplyReader {
    received: Vec<u8>,
    start: usize,
    /// End of the octets in `received` among which no line feed was found.
    searched: usize,
    /// Lines of a reply whose last line was not received yet, and their size in octets.
    begun: Option<Reply>,
    size: usize,
}

struct Line {
    code: Option<u16>,
    is_last: bool,
    text: String,
}

impl ReplyReader {
    /// Number of octets that may be added. It is 0 if a reply reached [`MAX_REPLY`]; [`cut`](Self::cut) then ends the reply.
    #[must_use]
    pub fn room(&self) -> usize {
        MAX_REPLY.saturating_sub(self.size + self.received.len() - self.start)
    }

    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.begun.is_none() && self.start == self.received.len()
    }

    /// Returns None if more octets are needed.
    ///
    /// # Errors
    /// The first line has no code: what follows cannot be assigned to commands.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, Unreadable> {
        while let Some(line) = self.next_line() {
            if line.code.is_none() && self.begun.is_none() {
                if line.text.is_empty() {
                    continue;
                }
                return Err(Unreadable);
            }
            let is_last = line.is_last;
            self.add(line);
            if is_last {
                self.size = 0;
                return Ok(self.begun.take());
            }
        }
        self.received.drain(..self.start);
        (self.start, self.searched) = (0, self.received.len());
        Ok(None)
    }

    /// Ends a partial reply. Returns it if one of its lines has a code. The reader must not be used afterwards.
    pub fn cut(&mut self) -> Option<Reply> {
        let line = Line::read(self.received.get(self.start..).unwrap_or_default());
        self.start = self.received.len();
        if line.code.is_some() || self.begun.is_some() {
            self.add(line);
        }
        self.begun.take()
    }

    fn next_line(&mut self) -> Option<Line> {
        let from = self.searched.max(self.start);
        let end = from + self.received.get(from..)?.iter().position(|octet| *octet == b'\n')?;
        let line = Line::read(self.received.get(self.start..end)?);
        self.size += end + 1 - self.start;
        self.start = end + 1;
        Some(line)
    }

    /// A line without a code, in the middle of a reply, continues its text.
    fn add(&mut self, line: Line) {
        match &mut self.begun {
            None => self.begun = line.code.map(|code| Reply { code, text: line.text }),
            Some(reply) => {
                reply.code = line.code.unwrap_or(reply.code);
                reply.text.push('\n');
                reply.text.push_str(&line.text);
            }
        }
    }
}

impl Line {
    /// Only a hyphen after the code announces further lines.
    fn read(octets: &[u8]) -> Line {
        let octets = octets.trim_ascii();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets.trim_ascii()).into_owned();
        match octets.split_first_chunk() {
            Some((digits, rest)) if is_code(*digits) => {
                let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
                let continued = rest.strip_prefix(b"-");
                Line { code: Some(code), is_last: continued.is_none(), text: text(continued.unwrap_or(rest)) }
            }
            _ => Line { code: None, is_last: false, text: text(octets) },
        }
    }
}

fn is_code(digits: [u8; 3]) -> bool {
    CLASSES.contains(&digits[0]) && digits.iter().all(u8::is_ascii_digit)
}
