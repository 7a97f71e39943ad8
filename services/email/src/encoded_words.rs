//! Encoded words (RFC 2047) for header values that cannot be written literally.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length in octets of a word that is written literally. A line has at most 998 octets (RFC 5322 section
/// 2.1.1), and a header cannot be folded within a word.
const LONGEST_WORD: usize = 900;
/// Octets of text in one encoded word, which has at most 75 characters.
const CHUNK: usize = 45;

/// Returns true if a value has control characters, or a word that does not fit on a line.
pub(crate) fn needed(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_control())
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
