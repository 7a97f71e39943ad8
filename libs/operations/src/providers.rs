//! Providers of an app: what a document may contain, and how its secrets are kept.

mod change;
mod document;
pub mod form;
mod history;
mod kind;
mod secret_members;
mod test_call;

use credentials::secrets::{SecretsError, provider_context};
use domain::{Action, Actor, AppId};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use store::control::provider::{
    NewProvider, ProviderEdit, ProviderSummary, SecretChange, SecretNames, StoredProvider,
};

use crate::{Caller, Object, OperationError, Operations, Permission};

pub use change::{Expected, LONGEST_REASON, move_before, remove_version, set_version, switch};
pub use document::Draft;
use document::ProviderDocument;
pub use history::{AnswerGroup, Change, answers, history};
pub use kind::KnownKind;
pub use test_call::{FailedTest, ProviderTest, ProviderTests, TEST_LIMIT};

/// Maximum number of ids of unmatched receipts of a [`ProviderDetails`].
const MOST_UNMATCHED: u32 = 5;

/// A provider, without its secrets.
#[derive(Debug)]
pub struct ProviderDetails {
    pub provider: ProviderSummary,
    /// Ids in receipts that match no delivery.
    pub unmatched_receipts: Vec<String>,
}

/// Result of setting a provider, or of its preview.
#[derive(Debug)]
pub struct SetProvider {
    /// Version of the provider after the change.
    pub version: i64,
    /// Version that the change replaces; None for a new provider.
    pub replaced: Option<i64>,
    /// Names of secrets that the document contains.
    pub given: Vec<&'static str>,
    /// Names of secrets that the document omits and that stay unchanged.
    pub kept: Vec<&'static str>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot decrypt the stored secrets: the document must set each secret to a new value or to null")]
struct ClosedSecrets(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Creates or replaces a provider. A secret that the document omits stays unchanged if channel and kind stay the same.
///
/// # Errors
/// Returns [`OperationError::Invalid`] if the settings are not valid together with the kept secrets.
pub async fn set(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    draft: &Draft,
) -> Result<SetProvider, OperationError> {
    set_version(operations, caller, app, draft, Expected::Any).await
}

async fn put(
    operations: &Operations,
    app: AppId,
    draft: &Draft,
    (edit, stored): (ProviderEdit, Option<StoredProvider>),
    actor: &Actor,
) -> Result<SetProvider, OperationError> {
    let kept = kept_secrets(operations, app, draft, stored.as_ref())?;
    let document = draft.complete(&kept).map_err(OperationError::Invalid)?;
    let is_unchanged = document.given.is_empty() && document.secrets == kept;
    let sealed = if document.secrets.is_empty() || is_unchanged {
        None
    } else {
        let text = Value::Object(document.secrets.clone()).to_string();
        let context = provider_context(app, &document.identifier);
        Some(operations.master_key().await?.seal(&context, text.as_bytes())?)
    };
    let provider = NewProvider {
        identifier: &document.identifier,
        channel: document.channel,
        kind: document.kind,
        priority: document.priority,
        enabled: document.enabled,
        settings: &document.settings,
        secret: match &sealed {
            Some(sealed) => SecretChange::Replace(sealed),
            None if document.secrets.is_empty() => SecretChange::Remove,
            None => SecretChange::Keep,
        },
        max_per_second: document.max_per_second,
    };
    let secrets = SecretNames { given: &document.given, kept: &document.kept };
    let version = edit.put(provider, secrets, actor).await?;
    Ok(set_provider(document, version, stored))
}

/// Returns the change that [`set`] would make, and changes nothing.
///
/// # Errors
/// Returns an error in the same cases as [`set`].
pub async fn preview(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    draft: &Draft,
) -> Result<SetProvider, OperationError> {
    caller.may(Permission::of(Action::ProviderSet), app)?;
    let stored = operations.store.control().provider(app, draft.identifier()).await?;
    let kept = kept_secrets(operations, app, draft, stored.as_ref())?;
    let document = draft.complete(&kept).map_err(OperationError::Invalid)?;
    let version = stored.as_ref().map_or(0, |stored| stored.row.version) + 1;
    Ok(set_provider(document, version, stored))
}

/// Returns true if setting the provider would keep stored secrets that the document omits.
pub async fn keeps_secrets(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    draft: &Draft,
) -> Result<bool, OperationError> {
    caller.may(Permission::of(Action::ProviderSet), app)?;
    let stored = operations.store.control().provider(app, draft.identifier()).await?;
    Ok(!kept_secrets(operations, app, draft, stored.as_ref())?.is_empty())
}

/// Returns the names of the secrets that a provider has. Their values stay secret.
///
/// # Errors
/// Returns [`Object::Provider`] if the app has no such provider.
pub async fn secret_names(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    kind: &KnownKind,
    identifier: &str,
) -> Result<Vec<&'static str>, OperationError> {
    caller.may(Permission::ManageProviders, app)?;
    let stored = operations.store.control().provider(app, identifier).await?;
    let stored = stored.ok_or(OperationError::NotFound(Object::Provider))?;
    let secrets = opened_secrets(operations, app, &stored)?;
    let names = kind.secrets.iter().copied();
    Ok(names.filter(|name| secret_members::find(&secrets, name).is_some()).collect())
}

fn set_provider(document: ProviderDocument, version: i64, stored: Option<StoredProvider>) -> SetProvider {
    let ProviderDocument { given, kept, .. } = document;
    SetProvider { version, replaced: stored.map(|stored| stored.row.version), given, kept }
}

/// Decrypts the secrets of the stored provider if the draft omits a secret and has the same channel and kind. Otherwise
/// returns no secrets.
///
/// # Errors
/// Returns a problem for each omitted secret if the draft names another server: the caller may not read its secrets, and
/// could send them to a server of their own.
fn kept_secrets(
    operations: &Operations,
    app: AppId,
    draft: &Draft,
    stored: Option<&StoredProvider>,
) -> Result<Map<String, Value>, OperationError> {
    let same =
        stored.filter(|stored| draft.leaves_secrets_out() && draft.is_of(stored.channel, &stored.row.kind));
    let Some(stored) = same else { return Ok(Map::new()) };
    let kept = opened_secrets(operations, app, stored)?;
    let problems = draft.misdirected(&stored.row.settings, &kept);
    if problems.is_empty() { Ok(kept) } else { Err(OperationError::Invalid(problems)) }
}

fn opened_secrets(
    operations: &Operations,
    app: AppId,
    stored: &StoredProvider,
) -> Result<Map<String, Value>, OperationError> {
    let Some(sealed) = stored.row.sealed.as_deref() else { return Ok(Map::new()) };
    let master_key = operations.unchecked_master_key()?;
    let opened = master_key.open(&provider_context(app, &stored.row.identifier), sealed);
    let opened = opened.map_err(|error: SecretsError| closed(error))?;
    serde_json::from_slice(opened.expose_secret()).map_err(closed)
}

fn closed(error: impl std::error::Error + Send + Sync + 'static) -> OperationError {
    OperationError::Defect(Box::new(ClosedSecrets(Box::new(error))))
}

/// Enables or disables a provider, and returns its new version.
///
/// # Errors
/// Returns [`Object::Provider`] if the app has no such provider.
pub async fn enable(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    enabled: bool,
) -> Result<i64, OperationError> {
    let action = if enabled { Action::ProviderEnable } else { Action::ProviderDisable };
    let actor = caller.authorize(action, app)?;
    let control = operations.store.control();
    let version = control.enable_provider(app, identifier, enabled, actor).await?;
    version.ok_or(OperationError::NotFound(Object::Provider))
}

/// Removes a provider and its secrets permanently.
///
/// # Errors
/// Returns [`Object::Provider`] if the app has no such provider.
pub async fn remove(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::ProviderRemove, app)?;
    let is_removed = operations.store.control().remove_provider(app, identifier, actor).await?;
    if is_removed { Ok(()) } else { Err(OperationError::NotFound(Object::Provider)) }
}

/// Lists the providers of an app, without their secrets.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
) -> Result<Vec<ProviderSummary>, OperationError> {
    caller.may(Permission::View, app)?;
    Ok(operations.store.control().list_providers(app).await?)
}

/// Finds a provider, without its secrets.
///
/// # Errors
/// Returns [`Object::Provider`] if the app has no such provider.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<ProviderDetails, OperationError> {
    let providers = list(operations, caller, app).await?;
    let found = providers.into_iter().find(|provider| provider.identifier == identifier);
    let provider = found.ok_or(OperationError::NotFound(Object::Provider))?;
    let deliveries = operations.store.deliveries();
    let unmatched_receipts = deliveries.unmatched_receipts(app, identifier, MOST_UNMATCHED).await?;
    Ok(ProviderDetails { provider, unmatched_receipts })
}
