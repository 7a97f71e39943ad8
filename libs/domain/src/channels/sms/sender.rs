/// Length in characters (GSM 03.40, section 9.1.2.5).
const MAX_NAME: usize = 11;

pub const SENDER: &str = "must be a number, a short code, or a name of up to 11 letters and digits";

/// Returns true for 3 to 15 digits with an optional `+`, or up to 11 characters with at least one letter.
#[must_use]
pub fn is_sender(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let is_number = (3..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -_.&".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_number || is_name
}
