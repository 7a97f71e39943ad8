/// Length in bytes.
pub const MAX_HEADER_NAME: usize = 76;
/// Longest line of an email, in bytes, without its end (RFC 5322, section 2.1.1).
const MAX_LINE: usize = 998;

/// Headers that only Tidings or mail servers may write, in lower case.
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
const OWNED_PREFIXES: [&str; 2] = ["content-", "resent-"];
/// Prefixes in lower case. Apart from `x-app-`, which is for the app's own headers, standards or mail programs define them, and no relay
/// acts on them.
const OPEN_PREFIXES: [&str; 18] = [
    "accept-language",
    "archived-at",
    "auto-submitted",
    "disposition-notification-",
    "expiry-date",
    "feedback-id",
    "in-reply-to",
    "list-",
    "message-context",
    "reply-by",
    "thread-",
    "user-agent",
    "x-app-",
    "x-auto-response-suppress",
    "x-entity-ref-id",
    "x-msmail-priority",
    "x-report-abuse",
    "x-google-original-",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Empty or too long, with characters other than letters, digits and hyphens, or with a leading hyphen.
    NoName,
    Owned,
    /// A relay could act on the header, for example add recipients or delay the email.
    Relay,
}

/// Returns the reason why a send must not add a header of this name, or None if it may.
///
/// Tidings allows fewer names than RFC 5322, section 3.6.8. It refuses a leading dot, for example: an SMTP client that forgot to double it
/// (RFC 5321, section 4.5.2) would turn `.From` into the header `From`.
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
    (is_of_relay(&lower) && !begins_with_one_of(&OPEN_PREFIXES)).then_some(Refusal::Relay)
}

/// Returns true if a name, in lower case, looks like those with which relays take commands. There are too many relays to list their names,
/// but these have a common form: several words of which one is the relay's (`x-postal-tag`), or a word with `api` at an end (`x-smtpapi`).
fn is_of_relay(name: &str) -> bool {
    let word = name.strip_prefix("x-").unwrap_or(name);
    word.contains('-') || word.starts_with("api") || word.ends_with("api") || word.starts_with("smtpapi")
}

/// Returns true if a header never has to be folded within a word (RFC 5322, section 2.1.1).
#[must_use]
pub fn fits_on_a_line(name: &str, value: &str) -> bool {
    name.len() + ": ".len() + value.len() <= MAX_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_letters_digits_and_hyphens_may_be_added() {
        for name in [
            "X-Campaign",
            "x",
            "7bit",
            "Precedence",
            "List-Id",
            "X-Pmx",
            "X-App-Order-Id",
            "In-Reply-To",
            "X-SMTP",
        ] {
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
    fn headers_of_the_service_and_of_any_relay_are_refused_in_any_case() {
        for name in ["From", "bCC", "SENDER", "Content-Type", "resent-to", "Apparently-To"] {
            assert_eq!(refusal(name), Some(Refusal::Owned), "{name}");
        }
        for name in [
            "X-SMTPAPI",
            "x-smtpapi2",
            "X-MC-SendAt",
            "X-PM-KeepID",
            "X-Mailgun-Variables",
            "X-APIHEADER",
            "X-Postal-Tag",
            "X-MailerSend-Tags",
            "X-Smtp2go-Bcc",
            "Mj-CustomID",
            "X-RelayOfTomorrow-Bcc",
            "X-Sweego-Campaign",
        ] {
            assert_eq!(refusal(name), Some(Refusal::Relay), "{name}");
        }
    }
}
