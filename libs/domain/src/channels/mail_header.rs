//! Checks the names of headers that a send adds to an email.

/// Longest name of a header, in bytes.
pub const MAX_HEADER_NAME: usize = 76;

/// Lower-case names of the headers that only Tidings or mail servers may write.
const OWNED: [&str; 26] = [
    "apparently-to",
    "arc-authentication-results",
    "arc-message-signature",
    "arc-seal",
    "authentication-results",
    "bcc",
    "cc",
    "date",
    "delivered-to",
    "dkim-signature",
    "envelope-to",
    "errors-to",
    "from",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "mime-version",
    "received",
    "reply-to",
    "return-path",
    "sender",
    "subject",
    "to",
    "x-envelope-from",
    "x-envelope-to",
    "x-original-to",
];
/// Prefixes of further header names that only Tidings or mail servers may write.
const OWNED_PREFIXES: [&str; 2] = ["content-", "resent-"];
/// Prefixes of header names that control a mail relay, for example to add recipients or to delay the email.
const RELAY_PREFIXES: [&str; 16] = [
    "x-amz-",
    "x-elasticemail-",
    "x-mailgun-",
    "x-mailin-",
    "x-mailjet-",
    "x-mandrill-",
    "x-mc-",
    "x-mj-",
    "x-ms-exchange-",
    "x-msys-",
    "x-pm-",
    "x-postmark-",
    "x-sendgrid-",
    "x-ses-",
    "x-sib-",
    "x-smtpapi",
];

/// Reason why a send must not add a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is empty or too long, contains characters other than letters, digits and hyphens, or starts with a hyphen.
    NoName,
    /// Only Tidings or mail servers may write the header.
    Owned,
    /// The header controls a mail relay.
    Relay,
}

/// Returns the reason why a send must not add a header of this name, or None if it may.
///
/// Tidings allows fewer names than RFC 5322, section 3.6.8. For example, a name must not start with a dot: if an SMTP client does
/// not double a dot at the start of a line, the SMTP server removes the dot (RFC 5321, section 4.5.2) and reads `.From` as the
/// header `From`.
#[must_use]
pub fn refusal(name: &str) -> Option<Refusal> {
    let is_name = (1..=MAX_HEADER_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.starts_with('-');
    if !is_name {
        return Some(Refusal::NoName);
    }
    let lower = name.to_ascii_lowercase();
    let begins_with_one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| lower.starts_with(prefix));
    if OWNED.contains(&lower.as_str()) || begins_with_one_of(&OWNED_PREFIXES) {
        return Some(Refusal::Owned);
    }
    begins_with_one_of(&RELAY_PREFIXES).then_some(Refusal::Relay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_letters_digits_and_hyphens_may_be_added() {
        for name in ["X-Campaign", "x", "7bit", "Precedence", "List-Id", "X-Pmx", "a--b-"] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    #[test]
    fn a_header_name_that_a_server_reads_as_another_is_refused() {
        let hidden =
            [".From", ".X-SMTPAPI", "..Bcc", ".", "", "-To", " To", "To ", "To\t", "Tо", "X_To", "X.To"];
        for name in hidden.into_iter().chain(["X:To", "To\r\nBcc", "\u{200b}To", "'To", "\"To\"", "To\0"]) {
            assert_eq!(refusal(name), Some(Refusal::NoName), "{name:?}");
        }
        assert_eq!(refusal(&"x".repeat(MAX_HEADER_NAME)), None);
        assert_eq!(refusal(&"x".repeat(MAX_HEADER_NAME + 1)), Some(Refusal::NoName));
    }

    #[test]
    fn headers_of_the_service_and_of_relays_are_refused_in_any_case() {
        for name in ["From", "bCC", "SENDER", "Content-Type", "resent-to", "Apparently-To"] {
            assert_eq!(refusal(name), Some(Refusal::Owned), "{name}");
        }
        for name in ["X-SMTPAPI", "x-smtpapi2", "X-MC-SendAt", "X-PM-KeepID", "X-Mailgun-Variables"] {
            assert_eq!(refusal(name), Some(Refusal::Relay), "{name}");
        }
    }
}
