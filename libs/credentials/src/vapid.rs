//! Key pairs that identify apps to push services (VAPID, RFC 8292), and the keys of browsers.

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::AppId;
use secrecy::SecretSlice;
use store::Store;
use store::control::vapid_key::NewVapidKey;

use crate::MasterKey;
use crate::secrets::SecretsError;

#[derive(Debug, thiserror::Error)]
pub enum VapidError {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
}

impl From<Unspecified> for VapidError {
    fn from(Unspecified: Unspecified) -> Self {
        VapidError::Secrets(SecretsError::Random)
    }
}

#[derive(Debug)]
pub struct GeneratedPair {
    public_key: String,
    sealed: Vec<u8>,
}

impl GeneratedPair {
    #[must_use]
    pub fn as_row(&self) -> NewVapidKey<'_> {
        NewVapidKey { public_key: &self.public_key, sealed: &self.sealed }
    }
}

pub fn generate(master_key: &MasterKey, app: AppId) -> Result<GeneratedPair, VapidError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
    let public_key = URL_SAFE_NO_PAD.encode(pair.public_key());
    let sealed = master_key.seal(&context(app), pair.to_pkcs8v1()?.as_ref())?;
    Ok(GeneratedPair { public_key, sealed })
}

/// Keeps an existing key pair.
pub async fn create(store: &Store, master_key: &MasterKey, app: AppId) -> Result<(), VapidError> {
    store.control().add_vapid_key(app, generate(master_key, app)?.as_row()).await?;
    Ok(())
}

#[derive(Clone)]
pub struct VapidKeyPair {
    /// An uncompressed point on the curve P-256, in base64url; browsers subscribe with it.
    pub public_key: String,
    pub pkcs8: SecretSlice<u8>,
}

pub async fn load(
    store: &Store,
    master_key: &MasterKey,
    app: AppId,
) -> Result<Option<VapidKeyPair>, VapidError> {
    let Some(row) = store.control().vapid_key(app).await? else {
        return Ok(None);
    };
    let pkcs8 = master_key.open(&context(app), &row.sealed)?;
    Ok(Some(VapidKeyPair { public_key: row.public_key, pkcs8 }))
}

fn context(app: AppId) -> String {
    format!("vapid-key:{app}")
}

/// Returns the number of created pairs. Pairs created before an error stay.
pub async fn create_missing(store: &Store, master_key: &MasterKey) -> Result<usize, VapidError> {
    let apps = store.control().apps_without_vapid_key().await?;
    for &app in &apps {
        create(store, master_key, app).await?;
    }
    Ok(apps.len())
}

/// `point` is uncompressed. A browser's public key must lie on P-256.
#[must_use]
pub fn is_on_curve(point: &[u8]) -> bool {
    ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).is_ok()
}
