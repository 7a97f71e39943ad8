//! The channels that users accept for each category.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CategoryId, Channel};
use store::directory::preference::{CategoryPreference, Subscription};

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Choices of a user, compared with the categories of the app.
#[derive(Debug)]
pub struct CheckedChoices {
    channels: BTreeMap<(CategoryId, Channel), bool>,
    unknown: BTreeSet<CategoryId>,
}

impl CheckedChoices {
    /// Returns the named categories that do not exist.
    #[must_use]
    pub fn unknown(&self) -> &BTreeSet<CategoryId> {
        &self.unknown
    }
}

/// Result of following an unsubscribe link.
#[derive(Debug)]
pub enum Unsubscription {
    Done(Subscription),
    /// Nothing changed, because the category is critical.
    Critical(Subscription),
}

/// Lists the preferences of the caller's user, by category. The list is empty for an unknown user.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
) -> Result<Vec<CategoryPreference>, OperationError> {
    let own = caller.own(Permission::OwnPreferences)?;
    database(operations.store.directory().list_preferences(own.app, &own.identifier)).await
}

/// Compares choices with the categories of the app, for [`set`]. `named` contains the categories that the user named, also those
/// without a choice.
pub async fn check(
    operations: &Operations,
    caller: &Caller,
    mut named: BTreeSet<CategoryId>,
    channels: BTreeMap<(CategoryId, Channel), bool>,
) -> Result<CheckedChoices, OperationError> {
    let own = caller.own(Permission::OwnPreferences)?;
    named.extend(channels.keys().map(|(category, _)| *category));
    let known = database(operations.store.directory().known_categories(own.app, &named)).await?;
    named.retain(|category| !known.contains(category));
    Ok(CheckedChoices { channels, unknown: named })
}

/// Sets the choices; all other preferences stay unchanged. Returns all preferences of the user. A missing user is created.
///
/// # Errors
/// Returns [`Object::Category`] if a category does not exist.
pub async fn set(
    operations: &Operations,
    caller: &Caller,
    choices: &CheckedChoices,
) -> Result<Vec<CategoryPreference>, OperationError> {
    let own = caller.own(Permission::OwnPreferences)?;
    if !choices.unknown.is_empty() {
        return Err(OperationError::NotFound(Object::Category));
    }
    let directory = operations.store.directory();
    database(directory.set_preferences(own.app, own.writer(), &choices.channels)).await?;
    list(operations, caller).await
}

/// Returns the app and the category of the caller's unsubscribe link.
///
/// # Errors
/// Returns [`Object::Link`] if the user or the category no longer exists.
pub async fn subscription_of_link(
    operations: &Operations,
    caller: &Caller,
) -> Result<Subscription, OperationError> {
    let (app, user, category) = caller.unsubscribe_link()?;
    let subscription = database(operations.store.directory().subscription(app, user, category)).await?;
    subscription.ok_or(OperationError::NotFound(Object::Link))
}

/// Turns off the emails of the category of the caller's unsubscribe link. Preferences do not apply to a critical category.
///
/// # Errors
/// Returns [`Object::Link`] if the user or the category no longer exists, or the category became critical a moment ago.
pub async fn unsubscribe_by_link(
    operations: &Operations,
    caller: &Caller,
) -> Result<Unsubscription, OperationError> {
    let (app, user, category) = caller.unsubscribe_link()?;
    let subscription = subscription_of_link(operations, caller).await?;
    if subscription.critical {
        return Ok(Unsubscription::Critical(subscription));
    }
    let directory = operations.store.directory();
    let is_off = database(directory.turn_off(app, user, category, Channel::Email)).await?;
    if is_off { Ok(Unsubscription::Done(subscription)) } else { Err(OperationError::NotFound(Object::Link)) }
}
