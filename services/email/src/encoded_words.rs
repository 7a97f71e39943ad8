//! Encoded words (RFC 2047) and extended parameters (RFC 2231) for values that cannot be written literally.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length in octets of a word that is written literally. A line has at most 998 octets (RFC 5322 section
/// 2.1.1), and a header cannot be folded within a word.
const LONGEST_WORD: usize = 900;
/// Maximum number of octets that one encoded word encodes. The word then has at most 75 characters.
const CHUNK: usize = 45;

/// Returns true if a value has control characters, a word that does not fit on a line, or characters that programs would read as
/// an encoded word, although they are meant literally (RFC 2047 section 6.2).
pub(crate) fn needed(value: &str) -> bool {
    value.contains("=?")
        || value.bytes().any(|byte| byte.is_ascii_control())
        || value.len() > LONGEST_WORD && value.split(' ').any(|word| word.len() > LONGEST_WORD)
}

/// Encodes the whole value as encoded words, one per line.
pub(crate) fn encode(value: &str) -> String {
    let mut lines = Vec::with_capacity(value.len() / CHUNK + 1);
    let mut rest = value;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK));
        lines.push(format!("=?utf-8?b?{}?=", STANDARD.encode(chunk)));
        rest = after;
    }
    lines.join("\r\n ")
}

/// Maximum number of octets that one section of an extended parameter encodes. Its line then has at most 76 characters.
const SECTION: usize = 16;

/// Encodes the whole value as an extended parameter in sections, one per line. The result begins with the line end before the
/// first section.
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
