//! An app, with the decrypted keys that verify its callers.

use std::sync::Arc;

use credentials::MasterKey;
use credentials::secrets::{SecretsError, app_secret_context, constant_time_eq, hmac_sha256, sha256};
use domain::Timestamp;
use domain::app_setting::AppSettings;
use secrecy::{ExposeSecret, SecretSlice};
use service_kit::clock;
use store::control::app::{App, AppSecret};

use crate::access::token_key::TokenKey;

/// An app as the gateway caches it.
pub(crate) struct KnownApp {
    pub(crate) app: Arc<App>,
    /// Keys that verify bearer tokens.
    pub(crate) token_keys: Vec<TokenKey>,
    /// Keys that verify HMAC signatures of user ids; empty if the app does not use them.
    signature_keys: Vec<SignatureKey>,
}

/// Proof of a caller's identity, with the key that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The API secret with this digest.
    Secret(Vec<u8>),
    /// A bearer token, signed with the key that has this id.
    Token(String),
    /// A signature of the user's identifier, made with the API secret that has this digest.
    Signature(Vec<u8>),
    /// Nothing: the caller named the public API key.
    PublicKey,
}

struct SignatureKey {
    digest: Vec<u8>,
    secret: SecretSlice<u8>,
    expires_at: Option<Timestamp>,
}

impl KnownApp {
    /// Decrypts the app's secrets. A secret that cannot be decrypted is left out: it authenticates no caller. Callers with
    /// another secret of the app are not affected.
    pub(crate) fn open(app: App, master_key: &MasterKey) -> KnownApp {
        let token_keys = app.signing_keys.iter().filter_map(|key| {
            let opened = TokenKey::open(app.id, key, master_key);
            opened
                .inspect_err(|error| {
                    tracing::error!(app = %app.id, kid = key.kid, %error, "cannot load a signing key; rejecting tokens signed with it");
                })
                .ok()
        });
        let signature_keys =
            app.secrets.iter().filter(|secret| app.settings.hmac && !secret.sealed.is_empty()).filter_map(|secret| {
                let opened = SignatureKey::open(&app, secret, master_key);
                opened
                    .inspect_err(|error| {
                        tracing::error!(app = %app.id, %error, "cannot decrypt an API secret; rejecting user signatures made with it");
                    })
                    .ok()
            });
        let token_keys = token_keys.collect();
        let signature_keys = signature_keys.collect();
        KnownApp { app: Arc::new(app), token_keys, signature_keys }
    }

    /// Returns [`Evidence::Secret`] if `secret` is one of the valid secrets. Compares in constant time.
    pub(crate) fn evidence_of_secret(&self, secret: &str) -> Option<Evidence> {
        let digest = sha256(secret.as_bytes());
        self.has_secret(&digest).then(|| Evidence::Secret(digest.to_vec()))
    }

    /// Returns [`Evidence::Signature`] if `signature` is the HMAC-SHA256 of the user's identifier with a valid secret. Compares in
    /// constant time.
    pub(crate) fn evidence_of_signature(&self, user: &str, signature: &[u8]) -> Option<Evidence> {
        let signer = self.live_signature_keys().fold(None, |found, key| {
            let expected = hmac_sha256(key.secret.expose_secret(), user.as_bytes());
            if constant_time_eq(&expected, signature) { Some(key) } else { found }
        });
        signer.map(|key| Evidence::Signature(key.digest.clone()))
    }

    /// Returns true if the app still accepts evidence that it accepted earlier.
    pub(crate) fn accepts(&self, evidence: &Evidence) -> bool {
        let AppSettings { secure_mode, hmac, .. } = self.app.settings;
        match evidence {
            Evidence::Secret(digest) => self.has_secret(digest),
            Evidence::Token(kid) => self.token_keys.iter().any(|key| key.kid == *kid),
            Evidence::Signature(digest) => {
                // Without `hmac`, the public key is enough.
                let is_live = || self.live_signature_keys().any(|key| key.digest == *digest);
                !secure_mode && (!hmac || is_live())
            }
            Evidence::PublicKey => !secure_mode && !hmac,
        }
    }

    fn has_secret(&self, digest: &[u8]) -> bool {
        let now = clock::now();
        let live = self.app.secrets.iter().filter(|secret| is_live(secret.expires_at, now));
        live.fold(false, |found, secret| found | constant_time_eq(&secret.digest, digest))
    }

    fn live_signature_keys(&self) -> impl Iterator<Item = &SignatureKey> {
        let now = clock::now();
        self.signature_keys.iter().filter(move |key| is_live(key.expires_at, now))
    }
}

impl SignatureKey {
    fn open(app: &App, secret: &AppSecret, master_key: &MasterKey) -> Result<SignatureKey, SecretsError> {
        let opened = master_key.open(&app_secret_context(app.id), &secret.sealed)?;
        Ok(SignatureKey { digest: secret.digest.clone(), secret: opened, expires_at: secret.expires_at })
    }
}

fn is_live(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_none_or(|end| end > now)
}
