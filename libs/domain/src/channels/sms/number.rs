//! Telephone numbers.

/// Minimum and maximum number of digits, including the country code (ITU-T E.164, section 6).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// Returns true if a number is in E.164 form with the leading `+`: `+4915112345678`.
#[must_use]
pub fn is_e164(number: &str) -> bool {
    number.strip_prefix('+').is_some_and(|digits| {
        DIGITS.contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    })
}
