//! Changes of the version of a provider that the caller saw. If the provider has another version, nothing is changed.

use domain::{Action, AppId};
use store::control::provider::StoredProvider;

use super::{Draft, SetProvider, put};
use crate::{Caller, Conflict, OperationError, Operations};

/// Version of a provider that a change replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Any,
    Version(i64),
}

impl Expected {
    fn check(self, stored: Option<&StoredProvider>) -> Result<(), OperationError> {
        let conflict = match (self, stored) {
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
/// Returns [`Conflict::Changed`] if it is another one.
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
