//! Telephone numbers (ITU-T E.164).

use std::fmt;
use std::str::FromStr;

/// Number of digits, including the country code. E.164 (section 6) states the maximum; the shortest numbers in use have seven digits.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// A telephone number as `+` and digits: `+4915112345678`. Two numbers are equal if they name the same phone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhoneNumber(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a phone number with + and the country code, such as +4915112345678")]
pub struct InvalidNumber;

impl PhoneNumber {
    /// Parses a number. Ignores white space, hyphens and dashes, dots, slashes, parentheses, the `(0)` that only callers of the same
    /// country dial, and the invisible marks that phones copy along.
    ///
    /// A number without `+` is refused: what a prefix such as `00` or `011` means depends on the country of the caller.
    pub fn parse(text: &str) -> Result<PhoneNumber, InvalidNumber> {
        let dialled_abroad = text.replace("(0)", "");
        let number: String = dialled_abroad.chars().filter(|c| !is_separator(*c)).collect();
        if is_e164(&number) { Ok(PhoneNumber(number)) } else { Err(InvalidNumber) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn digits(&self) -> &str {
        self.0.trim_start_matches('+')
    }
}

impl fmt::Display for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PhoneNumber {
    type Err = InvalidNumber;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        PhoneNumber::parse(text)
    }
}

#[must_use]
pub fn is_e164(number: &str) -> bool {
    number.strip_prefix('+').is_some_and(|digits| {
        DIGITS.contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0')
    })
}

fn is_separator(c: char) -> bool {
    let is_dash = matches!(c, '-' | '\u{ad}' | '\u{2010}'..='\u{2015}' | '\u{2212}');
    let is_mark =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    (c.is_whitespace() && !c.is_control()) || is_dash || is_mark || matches!(c, '.' | '/' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_read_in_the_notations_in_use() {
        for text in [
            "+4915112345678",
            "+49 151 12345678",
            " +49\u{a0}151\u{a0}12345678 ",
            "+49-151-1234-5678",
            "+49 (0)151 12345678",
            "+49 (151) 12345678",
            "+49.151.12345678",
            "+49 151/12345678",
            "+49\u{2011}151\u{2013}12345678",
            "\u{202a}+49 151 12345678\u{202c}",
        ] {
            assert_eq!(
                PhoneNumber::parse(text).as_ref().map(PhoneNumber::as_str),
                Ok("+4915112345678"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_number_without_a_country_code_is_refused() {
        for text in [
            "",
            "+",
            "015112345678",
            "004915112345678",
            "011 49 151 12345678",
            "4915112345678",
            "+0123456789",
            "+123456",
            "+1234567890123456",
            "+49151x",
            "++4915112345678",
            "+49151123+45678",
            "+49 151 12345678 ext. 5",
            "+49151\r\n12345678",
            "tel:+4915112345678",
            "+٤٩١٥١١٢٣٤٥",
        ] {
            assert_eq!(PhoneNumber::parse(text), Err(InvalidNumber), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_number_that_is_parsed_from_its_own_text_is_the_same(text in "[+0-9 ().\u{a0}/-]{0,24}|\\PC{0,12}") {
            if let Ok(number) = PhoneNumber::parse(&text) {
                prop_assert!(is_e164(number.as_str()));
                prop_assert_eq!(PhoneNumber::parse(number.as_str()), Ok(number));
            }
        }

        #[test]
        fn equality_survives_separators(digits in "[1-9][0-9]{6,14}", separator in "[ ./\u{a0}\u{2011}-]{0,2}") {
            let written: Vec<String> = digits.chars().map(String::from).collect();
            let spaced = PhoneNumber::parse(&format!("+{}", written.join(&separator)));
            prop_assert_eq!(spaced, PhoneNumber::parse(&format!("+{digits}")));
        }
    }
}
