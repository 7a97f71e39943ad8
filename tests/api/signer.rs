//! An app's backend that signs bearer tokens and user identifiers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::{secrets, signing};
use domain::{Actor, SigningAlgorithm};
use jsonwebtoken::crypto::sign;
use jsonwebtoken::{Algorithm, EncodingKey};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use service_kit::clock;

use crate::service::{App, Service};

/// A signing key with its private part, as the app holds it.
pub(crate) struct Signer {
    pub(crate) kid: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: EncodingKey,
    /// Public key in PEM; empty for a shared secret.
    pub(crate) public_key: String,
}

impl Signer {
    /// Creates a signing key for the app.
    pub(crate) async fn create(service: &Service, app: &App, algorithm: SigningAlgorithm) -> Signer {
        let (store, master_key) = (&service.context.store, &service.context.master_key);
        let created =
            signing::create_key(store, master_key, app.id, algorithm, &Actor::System).await.unwrap().unwrap();
        let secret = created.secret.expose_secret().as_bytes();
        let (algorithm, key) = match algorithm {
            SigningAlgorithm::Rs256 => (Algorithm::RS256, EncodingKey::from_rsa_pem(secret).unwrap()),
            SigningAlgorithm::Es256 => (Algorithm::ES256, EncodingKey::from_ec_pem(secret).unwrap()),
            SigningAlgorithm::Hs256 => (Algorithm::HS256, EncodingKey::from_secret(secret)),
        };
        Signer { kid: created.kid, algorithm, key, public_key: created.public_key.unwrap_or_default() }
    }

    /// Signs a token whose header names the key.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_under(&json!({"alg": self.algorithm, "kid": self.kid}), claims)
    }

    /// Signs a token with the given header.
    pub(crate) fn token_under(&self, header: &Value, claims: &Value) -> String {
        forged(header, claims, &self.key, self.algorithm)
    }
}

/// Signs a token with the given key and algorithm, even if its header names others.
pub(crate) fn forged(header: &Value, claims: &Value, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signature = sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

/// Encodes a part of a token.
pub(crate) fn part(content: &Value) -> String {
    URL_SAFE_NO_PAD.encode(content.to_string())
}

/// Builds the claims (JWT) of a valid user token.
pub(crate) fn claims(app: &App, user: &str) -> Value {
    json!({"sub": format!("user:{user}"), "apiKey": app.key, "iat": seconds(0), "exp": seconds(3600)})
}

/// Returns the claims with the claim `name` changed.
pub(crate) fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

/// Returns the claims without the claim `name`.
pub(crate) fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

/// Returns a time relative to now, in seconds since 1970.
pub(crate) fn seconds(from_now: i64) -> i64 {
    clock::now().millis() / 1000 + from_now
}

/// Signs a user's identifier.
pub(crate) fn signature(secret: &str, user: &str) -> [u8; 32] {
    secrets::hmac_sha256(secret.as_bytes(), user.as_bytes())
}

/// Encodes bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
