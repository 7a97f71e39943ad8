//! Header values that cannot stand as they are (RFC 2047).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Octets of a word that can neither be folded nor makes a line too long (RFC 5322 section 2.1.1).
const LONGEST_WORD: usize = 900;
/// Octets that one encoded word of at most 75 characters carries.
const CHUNK: usize = 45;

/// Whether a value has control characters, or a word that fits no line.
pub(crate) fn needed(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_control())
        || value.len() > LONGEST_WORD && value.split(' ').any(|word| word.len() > LONGEST_WORD)
}

/// The whole value as encoded words, one a line.
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
