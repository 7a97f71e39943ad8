//! The profile of the user for whom the caller acts.

use domain::content::Object as ProfilePairs;
use domain::profile::{Change, seen_by};

use crate::waiting::database;
use crate::{Caller, OperationError, Operations, Permission};

/// Returns the part of the profile that the caller may see. The profile of an unknown user is empty.
pub async fn find(operations: &Operations, caller: &Caller) -> Result<ProfilePairs, OperationError> {
    let own = caller.own(Permission::OwnProfile)?;
    let user = database(operations.store.directory().find_user(own.app, &own.identifier)).await?;
    Ok(seen_by(user.map(|user| user.profile).unwrap_or_default(), own.author))
}

/// Changes the profile, and returns the part of it that the caller may see. A missing user is created.
///
/// # Errors
/// Returns [`OperationError::Profile`] if the change is not allowed.
pub async fn change(
    operations: &Operations,
    caller: &Caller,
    change: Change,
) -> Result<ProfilePairs, OperationError> {
    let own = caller.own(Permission::OwnProfile)?;
    let directory = operations.store.directory();
    let changed = directory.change_profile(own.app, &own.identifier, change, own.author);
    Ok(seen_by(database(changed).await?.profile, own.author))
}
