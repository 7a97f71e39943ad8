//! Keys that verify bearer tokens.

use credentials::MasterKey;
use credentials::secrets::SecretsError;
use credentials::signing::key_context;
use domain::{AppId, SigningAlgorithm};
use jsonwebtoken::crypto::verify;
use jsonwebtoken::{Algorithm, DecodingKey};
use secrecy::ExposeSecret;
use store::control::signing_key::{SigningKey, Verifier};

/// A signing key of an app, decrypted and parsed.
pub(crate) struct TokenKey {
    pub(crate) kid: String,
    /// The only algorithm that the key may be used with.
    pub(crate) algorithm: SigningAlgorithm,
    key: DecodingKey,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenKeyError {
    #[error(transparent)]
    Sealed(#[from] SecretsError),
    #[error("cannot read the public key: {0}")]
    PublicKey(#[from] jsonwebtoken::errors::Error),
    #[error("the stored key (a secret or a public key) is of the wrong kind for {0}")]
    OtherKind(SigningAlgorithm),
}

impl TokenKey {
    pub(crate) fn open(
        app: AppId,
        stored: &SigningKey,
        master_key: &MasterKey,
    ) -> Result<TokenKey, TokenKeyError> {
        let SigningKey { kid, algorithm, verifier, .. } = stored;
        let key = match (algorithm, verifier) {
            (SigningAlgorithm::Rs256, Verifier::PublicKey(pem)) => DecodingKey::from_rsa_pem(pem.as_bytes())?,
            (SigningAlgorithm::Es256, Verifier::PublicKey(pem)) => DecodingKey::from_ec_pem(pem.as_bytes())?,
            (SigningAlgorithm::Hs256, Verifier::Sealed(sealed)) => {
                let secret = master_key.open(&key_context(app, kid), sealed)?;
                DecodingKey::from_secret(secret.expose_secret())
            }
            _ => return Err(TokenKeyError::OtherKind(*algorithm)),
        };
        Ok(TokenKey { kid: kid.clone(), algorithm: *algorithm, key })
    }

    /// Returns true if the key signed `message`. The key determines the algorithm; the algorithm that a token names is ignored.
    pub(crate) fn has_signed(&self, message: &str, signature: &str) -> bool {
        let algorithm = match self.algorithm {
            SigningAlgorithm::Rs256 => Algorithm::RS256,
            SigningAlgorithm::Es256 => Algorithm::ES256,
            SigningAlgorithm::Hs256 => Algorithm::HS256,
        };
        verify(signature, message.as_bytes(), &self.key, algorithm).unwrap_or(false)
    }
}
