//! Creating an app with all of its credentials.

use std::time::Duration;

use credentials::secrets::{app_secret_context, random_token, sha256};
use credentials::{link, vapid};
use domain::fields::check_identifier;
use domain::{Action, AppId, Problem};
use secrecy::{ExposeSecret, SecretString};
use store::control::app::{NewApp as NewRow, NewSecret};

use crate::apps::{self, keys};
use crate::{Caller, Conflict, OperationError, Operations};

/// Access that a new app allows to callers with only its public API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAccess {
    /// No access: API calls by users need a bearer token.
    Closed,
    /// Callers with only the API key may act as any user whose id they know.
    Open,
    /// Like [`PublicAccess::Open`]. In addition, callers with only the API key may set the addresses in profiles, and
    /// templates see all keys of a profile.
    Development,
}

/// A new app, with its API secret in plain text.
#[derive(Debug)]
pub struct CreatedApp {
    pub id: AppId,
    pub api_key: String,
    pub api_secret: SecretString,
}

/// Checks the name of a new app.
///
/// # Errors
/// Returns every problem.
pub fn check_name(name: &str) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    match check_identifier("the app's name", name.to_owned(), &mut problems) {
        Some(_) => Ok(()),
        None => Err(problems),
    }
}

/// Creates an app with an API secret, a VAPID key pair and a key for links, in one transaction.
///
/// # Errors
/// Returns [`Conflict::NameTaken`] if another app has the name.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    name: &str,
    access: PublicAccess,
) -> Result<CreatedApp, OperationError> {
    let actor = caller.authorize(Action::AppCreate, None)?;
    check_name(name).map_err(OperationError::Invalid)?;
    let master_key = operations.master_key().await?;
    let api_key = random_token("ak_", 16)?;
    let app = NewRow { name, api_key: &api_key, development: access == PublicAccess::Development };
    let draft = operations.store.control().create_app(app, actor).await?;
    let mut draft = draft.ok_or(OperationError::Conflict(Conflict::NameTaken))?;
    let id = draft.id();
    if access != PublicAccess::Development {
        draft.distrust_users(access == PublicAccess::Closed).await?;
    }
    draft.add_vapid_key(vapid::generate(&master_key, id)?.as_row()).await?;
    draft.add_link_key(&link::generate(&master_key, id)?).await?;
    let api_secret = SecretString::from(random_token("as_", 32)?);
    let secret = api_secret.expose_secret().as_bytes();
    let sealed = master_key.seal(&app_secret_context(id), secret)?;
    draft.commit(NewSecret { digest: &sha256(secret), sealed: &sealed }).await?;
    Ok(CreatedApp { id, api_key, api_secret })
}

/// Creates an app, or renews the secret of the app that has the name. The previous secret stays valid for `grace`. Returns the
/// id of the app, its API key and the new secret.
///
/// # Errors
/// Returns an error in the same cases as [`create`] and [`keys::rotate_secret`], except that the name may be taken.
pub async fn create_or_renew(
    operations: &Operations,
    caller: &Caller,
    name: &str,
    access: PublicAccess,
    grace: Duration,
) -> Result<(AppId, String, SecretString), OperationError> {
    match create(operations, caller, name, access).await {
        Ok(CreatedApp { id, api_key, api_secret }) => Ok((id, api_key, api_secret)),
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            let app = apps::find(operations, caller, name).await?;
            let api_secret = keys::rotate_secret(operations, caller, app.id, grace).await?;
            Ok((app.id, app.api_key, api_secret))
        }
        Err(error) => Err(error),
    }
}
