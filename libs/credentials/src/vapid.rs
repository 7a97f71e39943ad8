//! The key pairs by which push services know an app (VAPID, RFC 8292), and the keys of browsers.

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

/// Why an app has no key pair.
#[derive(Debug, thiserror::Error)]
pub enum VapidError {
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It could not be made or sealed.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
}

impl From<Unspecified> for VapidError {
    fn from(Unspecified: Unspecified) -> Self {
        VapidError::Secrets(SecretsError::Random)
    }
}

/// Makes a key pair for the app. It keeps the one that it has.
///
/// # Errors
/// There are no random numbers, or the database failed.
pub async fn create(store: &Store, master_key: &MasterKey, app: AppId) -> Result<(), VapidError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
    let public_key = URL_SAFE_NO_PAD.encode(pair.public_key());
    let sealed = master_key.seal(&context(app), pair.to_pkcs8v1()?.as_ref())?;
    store.add_vapid_key(app, NewVapidKey { public_key: &public_key, sealed: &sealed }).await?;
    Ok(())
}

/// An app's key pair.
#[derive(Clone)]
pub struct VapidKeyPair {
    /// The public key, an uncompressed point of P-256 in base64url: what browsers subscribe with.
    pub public_key: String,
    /// The whole pair as PKCS #8.
    pub pkcs8: SecretSlice<u8>,
}

/// The app's key pair; None for an app that has none yet.
///
/// # Errors
/// The database failed, or the pair cannot be opened.
pub async fn load(
    store: &Store,
    master_key: &MasterKey,
    app: AppId,
) -> Result<Option<VapidKeyPair>, VapidError> {
    let Some(row) = store.vapid_key(app).await? else {
        return Ok(None);
    };
    let pkcs8 = master_key.open(&context(app), &row.sealed)?;
    Ok(Some(VapidKeyPair { public_key: row.public_key, pkcs8 }))
}

fn context(app: AppId) -> String {
    format!("vapid-key:{app}")
}

/// Makes a key pair for every app that has none, and says for how many.
///
/// # Errors
/// As for [`create`]; the apps before have theirs.
pub async fn create_missing(store: &Store, master_key: &MasterKey) -> Result<usize, VapidError> {
    let apps = store.apps_without_vapid_key().await?;
    for &app in &apps {
        create(store, master_key, app).await?;
    }
    Ok(apps.len())
}

/// Whether an uncompressed point lies on P-256, as the key of a browser must.
#[must_use]
pub fn is_on_curve(point: &[u8]) -> bool {
    ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).is_ok()
}
