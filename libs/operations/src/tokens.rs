//! Bearer tokens of the admin API: creating, listing and revoking them, and finding the caller of one.

use std::time::Duration;

use credentials::secrets::{random_token, sha256};
use domain::fields::check_identifier;
use domain::{Action, AppId, Problem, Role, Timestamp};
use secrecy::{ExposeSecret, SecretString};
pub use store::control::admin_token::AdminToken;
use store::control::admin_token::NewAdminToken;

use crate::waiting::database;
use crate::{Caller, Conflict, Grant, Object, OperationError, Operations, Permission};

/// Start of every token, by which scanners of source code find a leaked one.
pub const PREFIX: &str = "tdga_";
const TOKEN_BYTES: usize = 32;
/// Length of the random part in base64 without padding.
const ENCODED_LENGTH: usize = 43;
const NOTED_EACH: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Lifetime of a token: shortest, default and longest.
pub const LIFETIMES: (Duration, Duration, Duration) =
    (HOUR, Duration::from_secs(90 * 24 * 3_600), Duration::from_secs(366 * 24 * 3_600));

/// A token to create.
#[derive(Clone, Copy, Debug)]
pub struct NewToken<'a> {
    /// Unique in the installation.
    pub name: &'a str,
    pub role: Role,
    /// The app to which the token is limited; None for all apps and the installation itself.
    pub app: Option<AppId>,
    pub lifetime: Duration,
}

/// A new token, with its text.
#[derive(Debug)]
pub struct CreatedToken {
    /// Shown once; the database stores its digest only.
    pub text: SecretString,
    pub expires_at: Timestamp,
}

/// A caller that authenticated with a token.
#[derive(Clone, Debug)]
pub struct TokenCaller {
    /// Number of the token.
    pub id: i64,
    pub caller: Caller,
}

/// Creates a token.
///
/// # Errors
/// Returns [`OperationError::Denied`] if the role is above the caller's, and [`Conflict::NameTaken`] if a token has or had the name.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    new: NewToken<'_>,
) -> Result<CreatedToken, OperationError> {
    let actor = caller.authorize(Action::TokenCreate, new.app)?;
    caller.may_grant(new.role, new.app)?;
    check(&new)?;
    let text = SecretString::from(random_token(PREFIX, TOKEN_BYTES)?);
    let digest = sha256(text.expose_secret().as_bytes());
    let row = NewAdminToken { name: new.name, app: new.app, role: new.role, lifetime: new.lifetime };
    let created = database(operations.store.control().create_admin_token(row, &digest, actor)).await?;
    let expires_at = created.ok_or(OperationError::Conflict(Conflict::NameTaken))?;
    Ok(CreatedToken { text, expires_at })
}

fn check(new: &NewToken<'_>) -> Result<(), OperationError> {
    let mut problems = Vec::new();
    check_identifier("name", new.name.to_owned(), &mut problems);
    let (least, _, most) = LIFETIMES;
    if !(least..=most).contains(&new.lifetime) {
        let text = "a token must be valid for an hour to 366 days".to_owned();
        problems.push(Problem::new("expiresIn", "out_of_range", text));
    }
    if problems.is_empty() { Ok(()) } else { Err(OperationError::Invalid(problems)) }
}

/// Lists the latest 1,000 tokens, latest first: those that are limited to an app or, if `app` is None, all. Ended ones are among them.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: Option<AppId>,
) -> Result<Vec<AdminToken>, OperationError> {
    caller.may(Permission::ManageTokens, app)?;
    database(operations.store.control().list_admin_tokens(app)).await
}

/// Revokes a token. It is refused from the next call on.
///
/// # Errors
/// Returns [`Object::Token`] if no valid token has the name, or if the caller may not manage it.
pub async fn revoke(operations: &Operations, caller: &Caller, name: &str) -> Result<(), OperationError> {
    let control = operations.store.control();
    let missing = OperationError::NotFound(Object::Token);
    let Some(app) = database(control.scope_of_admin_token(name)).await? else {
        // A caller without any right to manage tokens must not find out which names exist.
        return Err(caller.may_anywhere(Permission::ManageTokens).err().unwrap_or(missing));
    };
    let Ok(actor) = caller.authorize(Action::TokenRevoke, app) else {
        return Err(caller.may_anywhere(Permission::ManageTokens).err().unwrap_or(missing));
    };
    let is_revoked = database(control.revoke_admin_token(name, app, actor)).await?;
    if is_revoked { Ok(()) } else { Err(missing) }
}

/// Returns true if a text has the form of a token, so that only the database knows whether it is one.
#[must_use]
pub fn is_well_formed(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == ENCODED_LENGTH)
}

/// Returns the caller of a token, or None if it is unknown, expired or revoked. Its role is at most that of its creator now; without a role of
/// the creator, the token counts as revoked.
pub async fn caller(operations: &Operations, token: &str) -> Result<Option<TokenCaller>, OperationError> {
    // The database looks the digest up by its index. The time that this takes reveals nothing about a token of 256 random bits.
    if !is_well_formed(token) {
        return Ok(None);
    }
    let digest = sha256(token.as_bytes());
    let found = database(operations.store.control().admin_token(&digest, NOTED_EACH)).await?;
    Ok(found.map(|token| {
        let grant = Grant { role: token.role, app: token.app };
        TokenCaller { id: token.id, caller: Caller::token(token.name, grant) }
    }))
}
