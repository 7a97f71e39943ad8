//! Twilio's signatures: <https://www.twilio.com/docs/usage/security>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use service_kit::secrets::{hmac_sha1, same};

/// Whether `signature` is HMAC-SHA1, in base64, of the URL and the fields in the order of their names, keyed by the
/// account's token. A time that tells nothing of how much was right.
pub(super) fn is_valid(token: &[u8], url: &str, fields: &[(String, String)], signature: &str) -> bool {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort();
    let mut text = url.to_owned();
    for (name, value) in sorted {
        text.push_str(name);
        text.push_str(value);
    }
    STANDARD.decode(signature).is_ok_and(|signature| same(&hmac_sha1(token, text.as_bytes()), &signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Twilio's documentation.
    #[test]
    fn twilios_own_example_is_valid_and_nothing_else() {
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
        let fields = [
            ("Digits", "1234"),
            ("To", "+18005551212"),
            ("From", "+14158675309"),
            ("Caller", "+14158675309"),
            ("CallSid", "CA1234567890ABCDE"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signature = "RSOYDt4T1cUTdK1PDd93/VVr8B8=";
        assert!(is_valid(b"12345", url, &fields, signature));
        assert!(!is_valid(b"12346", url, &fields, signature));
        assert!(!is_valid(b"12345", "https://mycompany.com/myapp.php?foo=1&bar=3", &fields, signature));
        assert!(!is_valid(b"12345", url, &fields[1..], signature));
        for other in ["", "RSOYDt4T1cUTdK1PDd93", "RSOYDt4T1cUTdK1PDd93/VVr8B9=", "é"] {
            assert!(!is_valid(b"12345", url, &fields, other), "{other}");
        }
    }
}
