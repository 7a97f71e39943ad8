//! Signatures of user identifiers. Deprecated: bearer tokens replace them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use web::failure::Failure;

use crate::access::known_app::{Evidence, KnownApp};

/// Length of an HMAC-SHA256 in bytes.
const LENGTH: usize = 32;
/// Maximum length of an encoded signature: 64 hex digits.
const LONGEST: usize = 2 * LENGTH;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Verifies `sent`, the app's signature of the user's identifier. 401 if it is missing or wrong.
pub(crate) fn check(app: &KnownApp, user: &str, sent: Option<&str>) -> Result<Evidence, Failure> {
    let Some(sent) = sent else {
        let message = "the app demands a bearer token, or a user signature: HMAC-SHA256 of the user id, keyed by \
                       the API secret";
        return Err(Failure::unauthorized("signature_required", message));
    };
    decode(sent).and_then(|signature| app.evidence_of_signature(user, &signature)).ok_or_else(|| {
        let message = "the user signature must be HMAC-SHA256 of the user id, keyed by the API secret, in \
                       base64 or hex";
        Failure::unauthorized("invalid_signature", message)
    })
}

/// Decodes a signature: standard or URL-safe base64, with or without padding, or 64 hex digits in upper or lower case.
fn decode(text: &str) -> Option<Vec<u8>> {
    match text.len() {
        LONGEST => hex(text),
        0..LONGEST => BASE64.decode(text.replace('-', "+").replace('_', "/")).ok(),
        _ => None,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>()?;
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair.iter().fold(0, |byte, digit| byte * 16 + digit)).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_of_a_signature_is_accepted_and_nothing_else() {
        let signature: Vec<u8> = (0..32).map(|byte| 255 - byte * 3).collect();
        let padded = BASE64.encode(&signature);
        assert!(padded.contains('+') || padded.contains('/'), "{padded}");
        let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let url_safe = padded.replace('+', "-").replace('/', "_");
        for text in [
            padded.as_str(),
            padded.trim_end_matches('='),
            &url_safe,
            url_safe.trim_end_matches('='),
            &hex,
            &hex.to_uppercase(),
        ] {
            assert_eq!(decode(text).as_ref(), Some(&signature), "{text}");
        }
        for text in ["", "null", "undefined", &hex[1..], &hex.replacen('f', "g", 1), "é", &"é".repeat(32)] {
            assert_ne!(decode(text).as_ref(), Some(&signature), "{text}");
        }
        assert_eq!(decode(&"00".repeat(4_000)), None);
    }
}
