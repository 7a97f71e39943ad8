//! Settings that several kinds of SMS providers have in common.

use domain::settings::SettingsReader;

/// Returns `text` if it is a valid sender: a number, a short code, or a name of up to 11 letters and digits. Otherwise
/// reports a problem with `member`.
pub(crate) fn sender(reader: &mut SettingsReader, member: &str, text: Option<String>) -> Option<String> {
    let text = text?;
    if !is_sender(&text) {
        reader.problem(member, "invalid", "must be a number, a short code, or up to 11 letters and digits");
        return None;
    }
    Some(text)
}

/// Returns true if a text can be the sender of an SMS: 3 to 15 digits with an optional `+`, or up to 11 characters with at
/// least one letter.
pub(crate) fn is_sender(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = (3..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = (1..=11).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -_.&".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_number || is_name
}
