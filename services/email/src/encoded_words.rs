//! Encoded words (RFC 2047) and extended parameters (RFC 2231) for values that cannot be written literally.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length in octets of a word that is written literally. A line has at most 998 octets (RFC 5322 section
/// 2.1.1), and a header cannot be folded within a word.
const LONGEST_WORD: usize = 900;
/// Longest line with an encoded word, in characters (RFC 2047 section 2).
const LONGEST_LINE: usize = 76;
const FRAME: usize = "=?utf-8?b??=".len();
const LONGEST_CHARACTER: usize = 4;

/// Returns true if a value has control characters, a word that does not fit on a line, or characters that programs would read as
/// an encoded word, although they are meant literally (RFC 2047 section 6.2).
pub(crate) fn needed(value: &str) -> bool {
    value.contains("=?")
        || value.bytes().any(|byte| byte.is_ascii_control())
        || value.len() > LONGEST_WORD && value.split(' ').any(|word| word.len() > LONGEST_WORD)
}

pub(crate) fn encode(header: &str, value: &str) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    let mut taken = header.len() + ": ".len();
    let mut rest = value;
    while !rest.is_empty() {
        let room = LONGEST_LINE.saturating_sub(taken + FRAME) / 4 * 3;
        if room >= LONGEST_CHARACTER {
            let (chunk, after) = rest.split_at(rest.floor_char_boundary(room));
            out.push_str("=?utf-8?b?");
            STANDARD.encode_string(chunk, &mut out);
            out.push_str("?=");
            rest = after;
        }
        if !rest.is_empty() {
            out.push_str("\r\n ");
        }
        taken = " ".len();
    }
    out
}

/// Maximum number of octets that one section of an extended parameter encodes. Its line then has at most 76 characters.
const SECTION: usize = 16;

/// The result begins with the line end before the first section.
pub(crate) fn extended_parameter(name: &str, value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    let mut number = 0;
    while number == 0 || !rest.is_empty() {
        let (section, after) = rest.split_at(rest.floor_char_boundary(SECTION));
        let (separator, charset) = if number == 0 { ("", "utf-8''") } else { (";", "") };
        out.push_str(&format!("{separator}\r\n {name}*{number}*={charset}"));
        for byte in section.bytes() {
            if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        rest = after;
        number += 1;
    }
    out
}
