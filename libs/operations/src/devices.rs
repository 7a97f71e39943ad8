//! The devices of the user for whom the caller acts.
//!
//! An unproven caller, that is, one with only the public key of an app that guards addresses, needs the secret of the device.

use credentials::secrets::{constant_time_eq, sha256};
use domain::profile::{Author, Refusal};
use domain::web_push::Subscription;

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, OwnUser, Permission};

/// A device, and the secret that its caller sent.
#[derive(Clone, Copy, Debug)]
pub struct OwnDevice<'a> {
    /// Identifier chosen by the client.
    pub id: &'a str,
    /// None if the caller sent no secret. Ignored unless the caller is unproven.
    pub secret: Option<&'a str>,
}

/// Stores the web-push subscription of a device, in place of the previous one. A missing user or device is created.
///
/// # Errors
/// Returns [`OperationError::WrongDeviceSecret`] or [`Refusal::AddressGuarded`] if an unproven caller may not make the change.
pub async fn subscribe(
    operations: &Operations,
    caller: &Caller,
    device: OwnDevice<'_>,
    subscription: &Subscription,
) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnDevices)?;
    let directory = operations.store.directory();
    match required_secret(operations, own, device).await? {
        None => database(directory.subscribe(own.app, own.writer(), device.id, subscription)).await,
        Some(secret) => {
            let proof = (device.id, &secret[..]);
            database(directory.subscribe_unproven(own.app, &own.identifier, proof, subscription)).await
        }
    }
}

/// Removes the web-push subscription of a device.
///
/// # Errors
/// Returns [`Object::Subscription`] if the device has none, and otherwise the errors of [`subscribe`].
pub async fn unsubscribe(
    operations: &Operations,
    caller: &Caller,
    device: OwnDevice<'_>,
) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnDevices)?;
    let directory = operations.store.directory();
    let is_removed = match required_secret(operations, own, device).await? {
        None => database(directory.unsubscribe(own.app, own.writer(), device.id)).await?,
        Some(secret) => {
            let proof = (device.id, &secret[..]);
            database(directory.unsubscribe_unproven(own.app, &own.identifier, proof)).await?
        }
    };
    if is_removed { Ok(()) } else { Err(OperationError::NotFound(Object::Subscription)) }
}

/// Removes the push token of a device from the user's profile.
///
/// # Errors
/// Returns [`Object::PushToken`] if the device has none, and otherwise the errors of [`subscribe`].
pub async fn remove_push_token(
    operations: &Operations,
    caller: &Caller,
    device: OwnDevice<'_>,
) -> Result<(), OperationError> {
    let own = caller.own(Permission::OwnDevices)?;
    let secret = required_secret(operations, own, device).await?;
    let secret = secret.as_ref().map(|secret| &secret[..]);
    let directory = operations.store.directory();
    let is_removed = database(directory.remove_push_token(own.app, own.writer(), device.id, secret)).await?;
    if is_removed { Ok(()) } else { Err(OperationError::NotFound(Object::PushToken)) }
}

/// Verifies the secret of an unproven caller's device, and returns its digest. Returns None for all other callers.
async fn required_secret(
    operations: &Operations,
    own: &OwnUser,
    device: OwnDevice<'_>,
) -> Result<Option<[u8; 32]>, OperationError> {
    if own.author != Author::Unproven {
        return Ok(None);
    }
    let digest = verified_secret(operations, own, device).await?;
    Ok(Some(digest.ok_or(OperationError::Profile(Refusal::AddressGuarded))?))
}

/// Verifies the secret of a device in constant time, and returns its digest. Returns None if the caller sent no secret.
pub(crate) async fn verified_secret(
    operations: &Operations,
    own: &OwnUser,
    device: OwnDevice<'_>,
) -> Result<Option<[u8; 32]>, OperationError> {
    let Some(sent) = device.secret else { return Ok(None) };
    let digest = sha256(sent.as_bytes());
    let known = operations.store.directory().device_secret(own.app, &own.identifier, device.id);
    let is_correct = database(known).await?.is_some_and(|known| constant_time_eq(&known, &digest));
    if is_correct { Ok(Some(digest)) } else { Err(OperationError::WrongDeviceSecret) }
}
