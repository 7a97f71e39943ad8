//! Keys with which an app's backend signs bearer tokens for its users.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::{Actor, AppId, SigningAlgorithm};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use store::Store;
use store::control::signing_key::{NewSigningKey, Verifier};

use crate::MasterKey;
use crate::secrets::{SecretsError, random_token};

const HS256_SECRET_LENGTH: usize = 32;
const KID_LENGTH: usize = 9;
/// Characters per line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Holds the only copy of the private key or shared secret.
pub struct CreatedKey {
    pub kid: String,
    /// PKCS #8 (RFC 5958) in PEM. For HS256, a text whose bytes are the shared secret.
    pub secret: SecretString,
    /// PEM; None for HS256.
    pub public_key: Option<String>,
}

/// Stores the key that verifies signatures. None if the app already has the maximum number of keys.
pub async fn create_key(
    store: &Store,
    master_key: &MasterKey,
    app: AppId,
    algorithm: SigningAlgorithm,
    actor: &Actor,
) -> Result<Option<CreatedKey>, SigningKeyError> {
    let kid = random_token("key_", KID_LENGTH)?;
    let (secret, verifier) = match algorithm {
        SigningAlgorithm::Rs256 => rsa_pair().map_err(|Unspecified| SecretsError::Random)?,
        SigningAlgorithm::Es256 => ecdsa_pair().map_err(|Unspecified| SecretsError::Random)?,
        SigningAlgorithm::Hs256 => {
            let secret = Zeroizing::new(random_token("", HS256_SECRET_LENGTH)?);
            let sealed = master_key.seal(&key_context(app, &kid), secret.as_bytes())?;
            (SecretString::from(secret.as_str()), Verifier::Sealed(sealed))
        }
    };
    let key = NewSigningKey { kid: &kid, algorithm, verifier: &verifier };
    if !store.control().create_signing_key(app, key, actor).await? {
        return Ok(None);
    }
    let public_key = match verifier {
        Verifier::PublicKey(pem) => Some(pem),
        Verifier::Sealed(_) => None,
    };
    Ok(Some(CreatedKey { kid, secret, public_key }))
}

#[must_use]
pub fn key_context(app: AppId, kid: &str) -> String {
    format!("signing-key:{app}:{kid}")
}

fn rsa_pair() -> Result<(SecretString, Verifier), Unspecified> {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048)?;
    let private: Pkcs8V1Der<'_> = pair.as_der()?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der()?;
    Ok(in_pem(private.as_ref(), public.as_ref()))
}

fn ecdsa_pair() -> Result<(SecretString, Verifier), Unspecified> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
    let private = pair.to_pkcs8v1()?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der()?;
    Ok(in_pem(private.as_ref(), public.as_ref()))
}

fn in_pem(private: &[u8], public: &[u8]) -> (SecretString, Verifier) {
    let private = Zeroizing::new(pem("PRIVATE KEY", private));
    let public = pem("PUBLIC KEY", public);
    (SecretString::from(private.as_str()), Verifier::PublicKey(public))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = Zeroizing::new(STANDARD.encode(der));
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
