//! Telephone numbers.

/// Fewest and most digits of a number, the country's code included (ITU-T E.164, section 6).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// Whether a number is written as E.164 says, with its `+`: `+4915112345678`.
#[must_use]
pub fn is_e164(number: &str) -> bool {
    number.strip_prefix('+').is_some_and(|digits| {
        DIGITS.contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    })
}
