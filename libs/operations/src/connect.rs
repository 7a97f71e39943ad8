//! Sign-in of a user on a device.

use credentials::secrets::{random_token, sha256};
use domain::content::Object as ProfilePairs;
use domain::inbox::Counts;
use domain::profile::{Author, push_targets};
use domain::{Channel, DeviceType};
use store::directory::category::Category;
use store::directory::device::unproven::UnprovenDevice;

use crate::categories::MOST_LISTED;
use crate::devices::{OwnDevice, verified_secret};
use crate::preferences::offered_channels;
use crate::waiting::database;
use crate::{Caller, OperationError, Operations, OwnUser, Permission};

const SECRET_BYTES: usize = 32;

/// A device on which a user signs in.
#[derive(Debug)]
pub struct NewDevice<'a> {
    pub device: OwnDevice<'a>,
    pub device_type: Option<DeviceType>,
    /// Profile pairs that add the device's push token; empty if there is none.
    pub token: ProfilePairs,
}

/// Data that a front end needs at start-up.
#[derive(Debug)]
pub struct Connected {
    /// Secret of the device, which is never shown again. None unless an unproven caller created the user.
    pub device_secret: Option<String>,
    pub counts: Counts,
    /// The first categories of the app, at most [`MOST_LISTED`].
    pub categories: Vec<Category>,
    /// The channels on which the app can deliver: the inbox, and every channel with an enabled provider.
    pub channels: Vec<Channel>,
    /// Key with which browsers subscribe to web push.
    pub public_key: Option<String>,
}

/// Stores a device of the caller's user, and creates the user if missing.
///
/// # Errors
/// An unproven caller gets [`OperationError::WrongDeviceSecret`] if it sent a wrong secret, and
/// [`AddressGuarded`](domain::profile::Refusal::AddressGuarded) if it may not register the push token.
pub async fn connect(
    operations: &Operations,
    caller: &Caller,
    device: NewDevice<'_>,
) -> Result<Connected, OperationError> {
    let own = caller.own(Permission::OwnDevices)?;
    let (store, app) = (&operations.store, own.app);
    let device_secret = if own.author == Author::Unproven {
        connect_unproven(operations, own, &device).await?
    } else {
        let NewDevice { device: OwnDevice { id, .. }, device_type, token } = &device;
        let directory = store.directory();
        database(directory.connect_device(app, own.writer(), token, id, *device_type)).await?;
        None
    };
    let (owner, categories, channels, public_key) = tokio::try_join!(
        database(store.inbox().inbox_owner(app, &own.identifier)),
        database(store.directory().list_categories(app, None, MOST_LISTED)),
        offered_channels(operations, app),
        database(store.control().vapid_public_key(app)),
    )?;
    let counts = owner.map(|owner| owner.counts).unwrap_or_default();
    Ok(Connected { device_secret, counts, categories, channels, public_key })
}

/// Connects a device of an unproven caller. Returns the device's secret if the call created the user.
async fn connect_unproven(
    operations: &Operations,
    own: &OwnUser,
    NewDevice { device, device_type, token }: &NewDevice<'_>,
) -> Result<Option<String>, OperationError> {
    let secret = verified_secret(operations, own, *device).await?;
    let fresh = random_token("ds_", SECRET_BYTES)?;
    let push_target = push_targets(token).next();
    let connecting = UnprovenDevice {
        device_id: device.id,
        device_type: *device_type,
        push_target: push_target.as_deref(),
        secret: secret.as_ref().map(|secret| &secret[..]),
    };
    let digest = sha256(fresh.as_bytes());
    let directory = operations.store.directory();
    let connected = directory.connect_unproven(own.app, &own.identifier, connecting, &digest);
    Ok(database(connected).await?.then_some(fresh))
}
