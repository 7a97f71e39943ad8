//! Webhook endpoints of an app, and messages that Tidings gave up on.

use std::time::Duration;

use credentials::secrets::webhook_secret_context;
use credentials::webhook::Secret;
use domain::webhook::{WebhookEvent, parse_url};
use domain::{Action, AppId, Problem};
use secrecy::{ExposeSecret, SecretString};
pub use store::webhooks::EndpointState;
use store::webhooks::{Endpoint, FailedMessage};
use uuid::Uuid;

use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// An endpoint that was created or changed.
#[derive(Debug)]
pub struct SetEndpoint {
    pub id: i64,
    /// Events that the endpoint receives, without repetitions.
    pub events: Vec<WebhookEvent>,
    /// Secret that signs the calls. Only a new endpoint gets one.
    pub secret: Option<SecretString>,
}

/// State of an endpoint that a change expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenEndpoint {
    Any,
    /// The app has no endpoint with this URL.
    Missing,
    State(EndpointState),
}

/// Creates an endpoint with a secret, or changes the events of an existing one and enables it. Without `events`, the endpoint
/// receives all of them.
///
/// # Errors
/// Returns [`OperationError::Invalid`] if Tidings cannot or must not call the URL, and [`Conflict::TooManyEndpoints`] if the app has the maximum number of endpoints.
pub async fn set(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    url: &str,
    events: &[WebhookEvent],
) -> Result<SetEndpoint, OperationError> {
    set_seen(operations, caller, app, url, events, SeenEndpoint::Any).await
}

/// Like [`set`], if the endpoint has the expected state.
///
/// # Errors
/// Returns the errors of [`set`], and [`Conflict::NameTaken`] or [`Conflict::Changed`] if the endpoint has another state.
pub async fn set_seen(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    url: &str,
    events: &[WebhookEvent],
    seen: SeenEndpoint,
) -> Result<SetEndpoint, OperationError> {
    let actor = caller.authorize(Action::WebhookSet, app)?;
    let url = parse_url(url, operations.allow_private);
    let url = url.map_err(|error| {
        let code = error.code();
        OperationError::Invalid(vec![Problem::new("url", code, error.to_string())])
    })?;
    let mut events = if events.is_empty() { WebhookEvent::ALL.to_vec() } else { events.to_vec() };
    events.sort_unstable();
    events.dedup();
    let draft = operations.store.webhooks().put_endpoint(app, url.as_str(), &events).await?;
    let draft = draft.ok_or(OperationError::Conflict(Conflict::TooManyEndpoints))?;
    match (seen, draft.former()) {
        (SeenEndpoint::Missing, Some(_)) => return Err(OperationError::Conflict(Conflict::NameTaken)),
        (SeenEndpoint::State(seen), former) if former != Some(&seen) => {
            return Err(OperationError::Conflict(Conflict::Changed));
        }
        _ => {}
    }
    let id = draft.id();
    let secret = if draft.is_new() { Some(Secret::generate()?.text()) } else { None };
    let sealed = match &secret {
        Some(secret) => Some(seal(operations, app, id, secret).await?),
        None => None,
    };
    draft.commit(sealed.as_deref(), actor).await?;
    Ok(SetEndpoint { id, events, secret })
}

/// Creates a new secret for an endpoint. For `grace`, calls are also signed with the previous one.
///
/// # Errors
/// Returns [`Object::Endpoint`] if the app has no such endpoint.
pub async fn rotate_secret(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: i64,
    grace: Duration,
) -> Result<SecretString, OperationError> {
    let rotated = rotate_if(operations, caller, app, endpoint, (grace, None)).await?;
    rotated.ok_or(OperationError::NotFound(Object::Endpoint))
}

/// Like [`rotate_secret`], if the newest secret of the endpoint is the one that the caller saw.
///
/// # Errors
/// Returns [`Conflict::Changed`] if the endpoint has another secret, or was removed.
pub async fn rotate_seen_secret(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    (endpoint, seen): (i64, i64),
    grace: Duration,
) -> Result<SecretString, OperationError> {
    let rotated = rotate_if(operations, caller, app, endpoint, (grace, Some(seen))).await?;
    rotated.ok_or(OperationError::Conflict(Conflict::Changed))
}

async fn rotate_if(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: i64,
    change: (Duration, Option<i64>),
) -> Result<Option<SecretString>, OperationError> {
    let actor = caller.authorize(Action::WebhookSecretRotate, app)?;
    let secret = Secret::generate()?.text();
    let sealed = seal(operations, app, endpoint, &secret).await?;
    let webhooks = operations.store.webhooks();
    let is_rotated = webhooks.rotate_webhook_secret(app, endpoint, &sealed, change, actor).await?;
    Ok(is_rotated.then_some(secret))
}

async fn seal(
    operations: &Operations,
    app: AppId,
    endpoint: i64,
    secret: &SecretString,
) -> Result<Vec<u8>, OperationError> {
    let context = webhook_secret_context(app, endpoint);
    Ok(operations.master_key().await?.seal(&context, secret.expose_secret().as_bytes())?)
}

/// Returns the valid secrets of an endpoint, newest first, for a test call.
///
/// # Errors
/// Returns an error if a secret was sealed with another master key, or is damaged.
pub async fn secrets(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: i64,
) -> Result<Vec<Secret>, OperationError> {
    caller.may(Permission::ManageWebhooks, app)?;
    let master_key = operations.master_key().await?;
    let context = webhook_secret_context(app, endpoint);
    let mut secrets = Vec::new();
    for sealed in operations.store.webhooks().webhook_secrets(app, endpoint).await? {
        let opened = master_key.open(&context, &sealed)?;
        let secret = std::str::from_utf8(opened.expose_secret()).ok().and_then(Secret::parse);
        secrets.push(secret.ok_or_else(|| OperationError::Defect("cannot read the stored secret".into()))?);
    }
    Ok(secrets)
}

/// Removes an endpoint, with its secrets and its messages. If the database fails, the endpoint may be disabled and some of its
/// messages removed; repeat the call.
///
/// # Errors
/// Returns [`Object::Endpoint`] if the app has no such endpoint.
pub async fn remove(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: i64,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::WebhookRemove, app)?;
    let is_removed = operations.store.webhooks().remove_endpoint(app, endpoint, actor).await?;
    if is_removed { Ok(()) } else { Err(OperationError::NotFound(Object::Endpoint)) }
}

/// Lists the endpoints of an app, oldest first.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
) -> Result<Vec<Endpoint>, OperationError> {
    caller.may(Permission::View, app)?;
    Ok(operations.store.webhooks().endpoints(app).await?)
}

/// Finds an endpoint by its URL or id.
///
/// # Errors
/// Returns [`Object::Endpoint`] if the app has no such endpoint.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    url_or_id: &str,
) -> Result<Endpoint, OperationError> {
    let endpoints = list(operations, caller, app).await?;
    let named = |endpoint: &Endpoint| endpoint.url == url_or_id || endpoint.id.to_string() == url_or_id;
    endpoints.into_iter().find(named).ok_or(OperationError::NotFound(Object::Endpoint))
}

/// Lists at most `limit` messages that Tidings gave up on, latest first. If `endpoint` is given, lists only its messages.
pub async fn failed(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: Option<i64>,
    limit: u32,
) -> Result<Vec<FailedMessage>, OperationError> {
    caller.may(Permission::View, app)?;
    Ok(operations.store.webhooks().failed_webhooks(app, endpoint, limit).await?)
}

/// Delivers messages that Tidings gave up on again, and returns their number. Without `ids`, selects all messages of the
/// endpoint, or of the app if `endpoint` is None.
///
/// # Errors
/// Returns [`Conflict::EndpointDisabled`] if the endpoint is disabled.
pub async fn redeliver(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    endpoint: Option<&Endpoint>,
    ids: Option<&[Uuid]>,
) -> Result<u64, OperationError> {
    let actor = caller.authorize(Action::WebhookRedeliver, app)?;
    if endpoint.is_some_and(|endpoint| endpoint.disabled.is_some()) {
        return Err(OperationError::Conflict(Conflict::EndpointDisabled));
    }
    let endpoint = endpoint.map(|endpoint| endpoint.id);
    Ok(operations.store.webhooks().redeliver_webhooks(app, endpoint, ids, actor).await?)
}
