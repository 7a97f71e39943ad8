//! The channels that users accept for each category.

use std::collections::{BTreeMap, BTreeSet};

use domain::{AppId, CategoryId, Channel};
use store::directory::category::Category;
use store::directory::preference::{CategoryPreference, Subscription};

use crate::categories::MOST_LISTED;
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

/// The channels among which the user of a link can choose, for each category.
#[derive(Debug)]
pub struct LinkedChoices {
    /// Name of the app, as its users know it.
    pub app: String,
    /// The categories of preference screens, in their order.
    pub categories: Vec<Category>,
    pub channels: Vec<Channel>,
    chosen: BTreeMap<(CategoryId, Channel), bool>,
}

impl LinkedChoices {
    /// Returns true if the category uses the channel: unless the user turned it off, and always for a critical category.
    #[must_use]
    pub fn is_on(&self, category: &Category, channel: Channel) -> bool {
        category.critical || self.chosen.get(&(category.id, channel)).copied().unwrap_or(true)
    }
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
    let off = BTreeMap::from([((category, Channel::Email), false)]);
    let set = database(operations.store.directory().choose(app, user, &off)).await?;
    if set > 0 { Ok(Unsubscription::Done(subscription)) } else { Err(OperationError::NotFound(Object::Link)) }
}

/// Returns the categories and channels among which the user of the caller's unsubscribe link can choose.
///
/// # Errors
/// Returns [`Object::Link`] if the user or the category of the link no longer exists.
pub async fn choices_of_link(
    operations: &Operations,
    caller: &Caller,
) -> Result<LinkedChoices, OperationError> {
    let (app, user, _) = caller.unsubscribe_link()?;
    let directory = operations.store.directory();
    let (subscription, mut categories, channels, chosen) = tokio::try_join!(
        subscription_of_link(operations, caller),
        database(directory.list_categories(app, None, MOST_LISTED)),
        offered_channels(operations, app),
        database(directory.choices(app, user)),
    )?;
    categories.retain(|category| !category.hide_in_preference_manager);
    categories.sort_by_key(|category| category.order);
    Ok(LinkedChoices { app: subscription.app, categories, channels, chosen })
}

/// Sets choices of the user of the caller's unsubscribe link; all others stay unchanged. Ignores those for critical categories, and for
/// categories that no longer exist.
///
/// # Errors
/// Returns [`Object::Link`] if the user or the category of the link no longer exists.
pub async fn choose_by_link(
    operations: &Operations,
    caller: &Caller,
    choices: &BTreeMap<(CategoryId, Channel), bool>,
) -> Result<LinkedChoices, OperationError> {
    let (app, user, _) = caller.unsubscribe_link()?;
    subscription_of_link(operations, caller).await?;
    database(operations.store.directory().choose(app, user, choices)).await?;
    choices_of_link(operations, caller).await
}

/// Returns the channels on which an app can deliver: the inbox, and every channel with an enabled provider.
pub(crate) async fn offered_channels(
    operations: &Operations,
    app: AppId,
) -> Result<Vec<Channel>, OperationError> {
    let providers = database(operations.store.control().list_providers(app)).await?;
    let has_provider =
        |channel| providers.iter().any(|provider| provider.enabled && provider.channel == channel);
    let channels = Channel::DELIVERED.into_iter();
    Ok(channels.filter(|&channel| channel == Channel::InApp || has_provider(channel)).collect())
}
