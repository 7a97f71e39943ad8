//! Twilio's signatures: <https://www.twilio.com/docs/usage/security>.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use credentials::secrets::{constant_time_eq, hmac_sha1};

/// Length of an HMAC-SHA1 in bytes.
const LENGTH: usize = 20;
/// Length of a signature in base64, in characters.
const ENCODED: usize = 28;

/// Decodes a signature: 20 bytes in base64. Returns None for any other text.
pub(super) fn decode(signature: &[u8]) -> Option<Vec<u8>> {
    let decoded = (signature.len() == ENCODED).then(|| STANDARD.decode(signature).ok()).flatten();
    decoded.filter(|decoded| decoded.len() == LENGTH)
}

/// Returns true if `signature` is the HMAC-SHA1, with the account's token as the key, of the URL and all fields sorted by name.
/// Compares in constant time.
pub(super) fn is_valid(token: &[u8], url: &str, fields: &[(String, String)], signature: &[u8]) -> bool {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort();
    let mut text = url.to_owned();
    for (name, value) in sorted {
        text.push_str(name);
        text.push_str(value);
    }
    constant_time_eq(&hmac_sha1(token, text.as_bytes()), signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in Twilio's documentation.
    #[test]
    fn only_twilios_own_example_is_valid() {
        let url = "https://mycompany.com/myapp.php?foo=1&bar=2";
        let fields = [
            ("Digits", "1234"),
            ("To", "+18005551212"),
            ("From", "+14158675309"),
            ("Caller", "+14158675309"),
            ("CallSid", "CA1234567890ABCDE"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signature = decode(b"RSOYDt4T1cUTdK1PDd93/VVr8B8=").unwrap();
        let signature = signature.as_slice();
        assert!(is_valid(b"12345", url, &fields, signature));
        assert!(!is_valid(b"12346", url, &fields, signature));
        assert!(!is_valid(b"12345", "https://mycompany.com/myapp.php?foo=1&bar=3", &fields, signature));
        assert!(!is_valid(b"12345", url, &fields[1..], signature));
        let other = decode(b"RSOYDt4T1cUTdK1PDd93/VVr8B9=");
        assert!(other.is_none_or(|other| !is_valid(b"12345", url, &fields, &other)));
        let other = decode(b"RSOYDt4T1cUTdK1PDd93/VVr8B4=").unwrap();
        assert!(!is_valid(b"12345", url, &fields, &other));
        for text in
            ["", "AAAA", "RSOYDt4T1cUTdK1PDd93", "RSOYDt4T1cUTdK1PDd93/VVr8B8", "\u{e9}", &"AAAA".repeat(7)]
        {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
