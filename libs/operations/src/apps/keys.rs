//! Credentials of an app: its API secret, its signing keys and the key of its links.

use std::time::Duration;

use credentials::link;
use credentials::secrets::{app_secret_context, random_token, sha256};
use credentials::signing::{self, CreatedKey};
use domain::{Action, AppId, SigningAlgorithm};
use secrecy::{ExposeSecret, SecretString};
use store::control::app::{App, NewSecret};

use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Creates a new API secret. The previous secret stays valid for `grace`; older secrets become invalid immediately.
///
/// # Errors
/// Returns [`Object::App`] if the app does not exist.
pub async fn rotate_secret(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    grace: Duration,
) -> Result<SecretString, OperationError> {
    let rotated = rotate_if(operations, caller, app, grace, None).await?;
    rotated.ok_or(OperationError::NotFound(Object::App))
}

/// Like [`rotate_secret`], if the app's newest secret is still the one of a version. A form that is sent twice would otherwise end the
/// secret that the backend uses.
///
/// # Errors
/// Returns [`Conflict::Changed`] if the app has another secret.
pub async fn rotate_seen_secret(
    operations: &Operations,
    caller: &Caller,
    app: &App,
    grace: Duration,
    seen: &str,
) -> Result<SecretString, OperationError> {
    caller.may(Permission::ManageSecrets, app.id)?;
    let newest = app.secrets.first().map_or(&[][..], |secret| secret.digest.as_slice());
    let rotated = if secret_version(app) == seen {
        rotate_if(operations, caller, app.id, grace, Some(newest)).await?
    } else {
        None
    };
    rotated.ok_or(OperationError::Conflict(Conflict::Changed))
}

/// Returns a text that differs if the app's newest secret is another one.
#[must_use]
pub fn secret_version(app: &App) -> String {
    short_digest(app.secrets.first().map_or(&[], |secret| secret.digest.as_slice()))
}

/// Returns eight bytes of a digest in hexadecimal digits.
pub(super) fn short_digest(bytes: &[u8]) -> String {
    sha256(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

async fn rotate_if(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    grace: Duration,
    seen: Option<&[u8]>,
) -> Result<Option<SecretString>, OperationError> {
    let actor = caller.authorize(Action::AppRotateSecret, app)?;
    let master_key = operations.master_key().await?;
    let api_secret = SecretString::from(random_token("as_", 32)?);
    let secret = api_secret.expose_secret().as_bytes();
    let sealed = master_key.seal(&app_secret_context(app), secret)?;
    let new = NewSecret { digest: &sha256(secret), sealed: &sealed };
    let is_rotated = operations.store.control().rotate_seen_secret(app, new, (grace, seen), actor).await?;
    Ok(is_rotated.then_some(api_secret))
}

/// Creates a key with which the app's backend signs bearer tokens.
///
/// # Errors
/// Returns [`Conflict::TooManySigningKeys`] if the app has the maximum number of keys.
pub async fn create_signing_key(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    algorithm: SigningAlgorithm,
) -> Result<CreatedKey, OperationError> {
    let actor = caller.authorize(Action::SigningKeyCreate, app)?;
    let master_key = operations.master_key().await?;
    let created = signing::create_key(&operations.store, &master_key, app, algorithm, actor).await?;
    created.ok_or(OperationError::Conflict(Conflict::TooManySigningKeys))
}

/// Revokes a signing key. Tokens signed with it are refused within five seconds.
///
/// # Errors
/// Returns [`Object::SigningKey`] if the app has no such key.
pub async fn revoke_signing_key(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    kid: &str,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::SigningKeyRevoke, app)?;
    let is_revoked = operations.store.control().revoke_signing_key(app, kid, actor).await?;
    if is_revoked { Ok(()) } else { Err(OperationError::NotFound(Object::SigningKey)) }
}

/// Creates a new key that seals the app's links, and returns its version. Links that were sealed with earlier keys stay valid
/// for `grace`.
///
/// # Errors
/// Returns [`Object::App`] if the app does not exist.
pub async fn rotate_link_key(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    grace: Duration,
) -> Result<i32, OperationError> {
    let actor = caller.authorize(Action::LinkKeyRotate, app)?;
    let master_key = operations.master_key().await?;
    let version = link::rotate(&operations.store, &master_key, app, grace, actor).await?;
    version.ok_or(OperationError::NotFound(Object::App))
}
