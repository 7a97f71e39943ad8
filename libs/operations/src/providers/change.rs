//! Changes of the version of a provider that the caller saw. If the provider has another version, nothing is changed.

use domain::{Action, AppId, Problem};
use store::control::provider::StoredProvider;

use super::{Draft, SetProvider, put};
use crate::{Caller, Conflict, Object, OperationError, Operations};

/// Maximum length of a reason in characters.
pub const LONGEST_REASON: usize = 200;

/// Version of a provider that a change replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Any,
    /// The app has no provider with the identifier.
    New,
    Version(i64),
}

impl Expected {
    fn check(self, stored: Option<&StoredProvider>) -> Result<(), OperationError> {
        let conflict = match (self, stored) {
            (Expected::New, Some(_)) => Conflict::NameTaken,
            (Expected::Version(version), Some(stored)) if stored.row.version != version => Conflict::Changed,
            (Expected::Version(_), None) => Conflict::Changed,
            _ => return Ok(()),
        };
        Err(OperationError::Conflict(conflict))
    }
}

/// Creates or replaces a provider like [`set`](super::set), if the stored one is the expected one.
///
/// # Errors
/// Returns [`Conflict::NameTaken`] or [`Conflict::Changed`] if it is another one.
pub async fn set_version(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    draft: &Draft,
    expected: Expected,
) -> Result<SetProvider, OperationError> {
    let actor = caller.authorize(Action::ProviderSet, app)?;
    let (edit, stored) = operations.store.control().edit_provider(app, draft.identifier()).await?;
    expected.check(stored.as_ref())?;
    put(operations, app, draft, (edit, stored), actor).await
}

/// Enables or disables a version of a provider, and keeps the reason in the audit log. Returns the new version.
///
/// # Errors
/// Returns a problem if the reason is empty or too long, [`Object::Provider`] if the app has no such provider, and [`Conflict::Changed`]
/// if it has another version.
pub async fn switch(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    (identifier, version): (&str, i64),
    enabled: bool,
    reason: &str,
) -> Result<i64, OperationError> {
    let action = if enabled { Action::ProviderEnable } else { Action::ProviderDisable };
    let actor = caller.authorize(action, app)?;
    let reason = reason.trim();
    if reason.is_empty() || reason.chars().count() > LONGEST_REASON || reason.chars().any(char::is_control) {
        let message = format!("reason must be one line of 1 to {LONGEST_REASON} characters");
        return Err(OperationError::Invalid(vec![Problem::new("reason", "invalid", message)]));
    }
    let (edit, stored) = operations.store.control().edit_provider(app, identifier).await?;
    let stored = stored.ok_or(OperationError::NotFound(Object::Provider))?;
    Expected::Version(version).check(Some(&stored))?;
    Ok(edit.enable(identifier, enabled, Some(reason), actor).await?)
}

/// Removes a version of a provider and its secrets permanently.
///
/// # Errors
/// Returns [`Object::Provider`] if the app has no such provider, and [`Conflict::Changed`] if it has another version.
pub async fn remove_version(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    version: i64,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::ProviderRemove, app)?;
    let (edit, stored) = operations.store.control().edit_provider(app, identifier).await?;
    let stored = stored.ok_or(OperationError::NotFound(Object::Provider))?;
    Expected::Version(version).check(Some(&stored))?;
    edit.remove(identifier, actor).await?;
    Ok(())
}

/// Moves a provider before another one of its channel, which workers try directly before it.
///
/// # Errors
/// Returns [`Conflict::Changed`] if workers try the providers in another order.
pub async fn move_before(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    before: &str,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::ProviderSet, app)?;
    let is_moved = operations.store.control().move_provider(app, identifier, before, actor).await?;
    if is_moved { Ok(()) } else { Err(OperationError::Conflict(Conflict::Changed)) }
}
