//! Secrets of webhook endpoints, and signatures according to Standard Webhooks (<https://www.standardwebhooks.com>).

use crate::secrets::{SecretsError, hmac_sha256, random_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

/// Makes a leaked secret recognizable.
const PREFIX: &str = "whsec_";
/// Length in bytes; the standard requires 24 to 64.
const LENGTH: usize = 32;

pub struct Secret(SecretSlice<u8>);

impl Secret {
    pub fn generate() -> Result<Secret, SecretsError> {
        Ok(Secret(random_bytes(LENGTH)?))
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Secret> {
        let key = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        Some(Secret(SecretSlice::from(key)))
    }

    #[must_use]
    pub fn text(&self) -> SecretString {
        let text = Zeroizing::new(PREFIX.to_owned() + &STANDARD.encode(self.0.expose_secret()));
        SecretString::from(text.as_str())
    }

    fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let signed = format!("{id}.{seconds}.{body}");
        let tag = hmac_sha256(self.0.expose_secret(), signed.as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    }
}

/// The receiver needs to know only one of the secrets.
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, seconds: i64, body: &str) -> String {
    let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_read_back_and_nothing_else_is_one() {
        let secret = Secret::generate().unwrap();
        let text = secret.text();
        assert_eq!(text.expose_secret().len(), PREFIX.len() + 44);
        let again = Secret::parse(text.expose_secret()).unwrap();
        assert_eq!(secret.sign("msg", 1, "{}"), again.sign("msg", 1, "{}"));
        assert!(Secret::parse("whsec_!").is_none() && Secret::parse("secret").is_none());
    }

    #[test]
    fn each_secret_signs_for_itself() {
        let secrets = [Secret::generate().unwrap(), Secret::generate().unwrap()];
        let both = signatures(&secrets, "msg", 1, "{}");
        let each: Vec<_> = secrets.iter().map(|secret| secret.sign("msg", 1, "{}")).collect();
        assert_eq!(both, each.join(" "));
        assert_ne!(each[0], each[1]);
    }

    #[test]
    fn the_published_example_is_signed_so() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
