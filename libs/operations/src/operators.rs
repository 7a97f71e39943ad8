//! Operators of the console: accounts, signing in, sessions.

pub mod account;
mod password_rules;
pub mod provider;
pub(crate) mod rate;
pub mod roles;

use std::sync::Arc;
use std::time::Duration;

use credentials::password;
use credentials::secrets::{random_token, sha256};
use domain::{Action, Actor, AppId, Problem, Role};
use fairness::peer::Peer;
use secrecy::{ExposeSecret, SecretString};
use store::Store;
use store::control::operator::session::NewSession;
use store::control::operator::{CodePurpose, Operator, Unchanged};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::operators::password_rules::{check_password, no_password};
use crate::operators::rate::Tries;
use crate::waiting::database;
use crate::{Caller, Conflict, Grant, Object, OperationError, Operations, Permission};

pub use password_rules::PASSWORD_LENGTH;

/// Bytes of the tokens of sessions and of one-time codes.
const TOKEN_BYTES: usize = 32;
/// Time for which a one-time code is valid.
pub const CODE_LIFETIME: Duration = Duration::from_secs(3600);
/// Maximum lifetime of a session.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// A session that is not used for this time ends.
pub const SESSION_IDLE: Duration = Duration::from_secs(12 * 3600);
/// A session in use is noted once in this time.
const NOTED_EACH: Duration = Duration::from_secs(60);
/// Maximum number of passwords that are hashed at the same time. Each takes 19 MiB.
const HASHED_AT_ONCE: usize = 2;
/// Maximum time that a password waits to be hashed.
const HASHED_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of sign-ins per minute for an account, and from an address.
const TRIES: (u32, u32) = (5, 20);
const LONGEST_EMAIL: usize = 254;
/// An operator without a password confirms a step by having signed in within this time.
const RECENT: Duration = Duration::from_secs(600);

/// An operator who signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub caller: Caller,
    pub email: String,
    pub grants: Vec<Grant>,
    /// True if an OpenID provider signed the operator in.
    pub by_provider: bool,
}

/// The client of a sign-in.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: Peer,
    /// Browser and system in words.
    pub browser: String,
}

/// Reason why a sign-in fails. The texts do not reveal whether the account exists.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("Email or password is wrong.")]
    Wrong,
    #[error("Too many tries. Wait a minute, then try again.")]
    TooMany,
    #[error("This link has been used or has expired.")]
    SpentCode,
    #[error(
        "Your account has no password, so this needs a sign-in of the last ten minutes. `tidings operator link` prints a link."
    )]
    NotRecent,
    #[error(
        "This needs a sign-in of the last ten minutes. Choose “Sign in again” in the menu with your email, then repeat it."
    )]
    ProviderNotRecent,
    #[error("Signing in with a password is turned off here.")]
    PasswordsOff,
    #[error("Your identity provider signs you in, so you set no password here.")]
    ByProvider,
    #[error("Your identity provider has not verified your email address.")]
    UnverifiedEmail,
    #[error(
        "Your identity provider names an email address with characters beyond ASCII, which the console does not take from it."
    )]
    NotAscii,
    #[error("Operators with an email address of this domain do not sign in here.")]
    ForeignDomain,
    #[error("You are not an operator here, or your account is disabled. An administrator can change that.")]
    NotAnOperator,
    #[error(
        "The operator with your email address belongs to another account of your identity provider. Ask an administrator."
    )]
    OtherIdentity,
    #[error("{}", domain::problem::joined(.0))]
    Invalid(Vec<Problem>),
    #[error(transparent)]
    Failed(#[from] OperationError),
}

/// Use cases of signing in, and what they share.
#[derive(Clone)]
pub struct SignIns {
    store: Store,
    hashing: Arc<Semaphore>,
    by_account: Arc<Tries<String>>,
    by_address: Arc<Tries<Peer>>,
    /// Sign-ins by a provider.
    by_provider: Arc<Tries<Peer>>,
    /// Hash that is verified if an account does not exist, so that the answer takes as long.
    decoy: Arc<str>,
    /// False if passwords are turned off.
    passwords: bool,
}

impl SignIns {
    /// # Errors
    /// Returns an error if the operating system gives no random numbers.
    pub fn new(store: Store) -> Result<SignIns, OperationError> {
        Ok(SignIns {
            store,
            hashing: Arc::new(Semaphore::new(HASHED_AT_ONCE)),
            by_account: Arc::new(Tries::new(TRIES.0)),
            by_address: Arc::new(Tries::new(TRIES.1)),
            by_provider: Arc::new(Tries::new(TRIES.1)),
            decoy: password::hash(&random_token("", TOKEN_BYTES)?)?.into(),
            passwords: true,
        })
    }

    /// Turns passwords on or off. If they are off, links sign in without one.
    #[must_use]
    pub fn with_passwords(self, passwords: bool) -> SignIns {
        SignIns { passwords, ..self }
    }

    /// Creates a code with which the first operator is created. Returns None if there already is one.
    pub async fn first_code(&self) -> Result<Option<String>, OperationError> {
        if database(self.store.control().has_operators()).await? {
            return Ok(None);
        }
        put_code(&self.store, None, false, None).await.map(Some)
    }

    /// Returns the purpose of a code, or None if it is not valid.
    pub async fn purpose(&self, code: &str) -> Result<Option<CodePurpose>, OperationError> {
        database(self.store.control().operator_code(&sha256(code.as_bytes()))).await
    }

    /// Uses a code up. Returns the token of a new session.
    pub async fn redeem(
        &self,
        code: &str,
        email: Option<&str>,
        new_password: Option<&SecretString>,
        client: &Client,
    ) -> Result<String, SignInError> {
        self.count_address(client.address)?;
        let purpose = self.purpose(code).await?.ok_or(SignInError::SpentCode)?;
        let email = email.map(normal);
        let owner = purpose.email.as_deref().or(email.as_deref());
        let owner = owner.filter(|email| is_email(email)).ok_or_else(bad_email)?;
        let hash = match new_password.filter(|_| self.passwords) {
            Some(password) => {
                let (checked, email) = (password.clone(), owner.to_owned());
                self.blocking(move || check_password(checked.expose_secret(), &email)).await??;
                Some(self.hash(password.clone()).await?)
            }
            None if purpose.signs_in || !self.passwords => None,
            None => return Err(SignInError::Invalid(vec![no_password()])),
        };
        let digest = sha256(code.as_bytes());
        let token = random_token("", TOKEN_BYTES).map_err(OperationError::from)?;
        let used = database(self.store.control().use_operator_code(&digest)).await?;
        let used = used.ok_or(SignInError::SpentCode)?;
        let (session, network) = (sha256(token.as_bytes()), client.address.network());
        let session = session_of(&session, "link", client, &network);
        let signing_in = used.sign_in(email.as_deref(), hash.as_deref(), &session);
        database(signing_in).await?.ok_or(SignInError::SpentCode)?;
        Ok(token)
    }

    /// Verifies a password. Returns the token of a new session.
    pub async fn sign_in(
        &self,
        email: &str,
        password: SecretString,
        client: &Client,
    ) -> Result<String, SignInError> {
        self.count_address(client.address)?;
        if !self.passwords {
            return Err(SignInError::PasswordsOff);
        }
        let email = normal(email);
        if email.len() > LONGEST_EMAIL || password.expose_secret().chars().count() > PASSWORD_LENGTH.1 {
            return Err(SignInError::Wrong);
        }
        if !self.by_account.admit(&email) {
            return Err(SignInError::TooMany);
        }
        let known = database(self.store.control().operator_password(&email)).await?;
        let stored = known.as_ref().map_or(&*self.decoy, |(_, stored)| stored.as_str()).to_owned();
        let is_correct = self.blocking(move || password::verify(password.expose_secret(), &stored)).await?;
        let operator = known.filter(|_| is_correct).map(|(operator, _)| operator);
        let operator = operator.ok_or(SignInError::Wrong)?;
        let token = random_token("", TOKEN_BYTES).map_err(OperationError::from)?;
        let (digest, network) = (sha256(token.as_bytes()), client.address.network());
        let session = session_of(&digest, "password", client, &network);
        database(self.store.control().open_operator_session(operator, &session)).await?;
        Ok(token)
    }

    /// Returns the operator of a session, or None if it has ended.
    pub async fn of_session(&self, token: &str) -> Result<Option<SignedIn>, OperationError> {
        let digest = sha256(token.as_bytes());
        let session = self.store.control().operator_of_session(&digest, SESSION_IDLE, NOTED_EACH);
        let session = database(session).await?;
        Ok(session.map(|(operator, method)| SignedIn::of(operator, method.as_deref() == Some("oidc"))))
    }

    /// Returns the operator with the email that a trusted proxy sent, or None if the operator does not exist or is disabled.
    pub async fn of_proxy(&self, email: &str) -> Result<Option<SignedIn>, OperationError> {
        let found = database(self.store.control().find_operator(&normal(email))).await?;
        let found = found.filter(|operator| !operator.disabled);
        Ok(found.map(|operator| SignedIn::of(operator, false)))
    }

    /// Returns true if the operator of a session confirms a step with a password.
    pub async fn asks_password(&self, session: &str) -> Result<bool, OperationError> {
        let digest = sha256(session.as_bytes());
        let proof = database(self.store.control().session_proof(&digest, RECENT)).await?;
        Ok(proof.is_none_or(|proof| self.passwords && !proof.by_provider && proof.password.is_some()))
    }

    /// Confirms a step of the operator of a session: by the password, with the same limits as for signing in, or by a recent sign-in if the
    /// operator has none or came from an OpenID provider.
    pub async fn confirm(
        &self,
        session: &str,
        email: &str,
        password: SecretString,
        address: Peer,
    ) -> Result<(), SignInError> {
        let digest = sha256(session.as_bytes());
        let proof = database(self.store.control().session_proof(&digest, RECENT)).await?;
        let proof = proof.ok_or(SignInError::Wrong)?;
        let stored = proof.password.filter(|_| self.passwords && !proof.by_provider);
        let stored = match stored {
            Some(stored) => stored,
            None if proof.is_recent => return Ok(()),
            None if proof.by_provider => return Err(SignInError::ProviderNotRecent),
            None => return Err(SignInError::NotRecent),
        };
        self.count_address(address)?;
        if !self.by_account.admit(&normal(email)) {
            return Err(SignInError::TooMany);
        }
        if password.expose_secret().chars().count() > PASSWORD_LENGTH.1 {
            return Err(SignInError::Wrong);
        }
        let is_correct = self.blocking(move || password::verify(password.expose_secret(), &stored)).await?;
        if is_correct { Ok(()) } else { Err(SignInError::Wrong) }
    }

    pub async fn sign_out(&self, token: &str) -> Result<(), OperationError> {
        database(self.store.control().end_operator_session(&sha256(token.as_bytes()))).await
    }

    /// Counts a try to sign in by a provider, before the console calls it. It uses up no try of a password.
    ///
    /// # Errors
    /// Returns [`SignInError::TooMany`] if the address has used up its tries of this minute.
    pub fn admit(&self, client: &Client) -> Result<(), SignInError> {
        if self.by_provider.admit(&client.address) { Ok(()) } else { Err(SignInError::TooMany) }
    }

    fn count_address(&self, address: Peer) -> Result<(), SignInError> {
        if self.by_address.admit(&address) { Ok(()) } else { Err(SignInError::TooMany) }
    }

    async fn hash(&self, password: SecretString) -> Result<String, SignInError> {
        let hashed = self.blocking(move || password::hash(password.expose_secret())).await?;
        Ok(hashed.map_err(OperationError::from)?)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OperationError> {
        let slot = timeout(HASHED_WITHIN, self.hashing.acquire()).await;
        let _slot = slot.map_err(|_| OperationError::crowded())?.map_err(OperationError::defect)?;
        spawn_blocking(work).await.map_err(OperationError::defect)
    }
}

impl SignedIn {
    /// Roles by claim count only if the provider signed the operator in: it would not do so any more after removing the person.
    fn of(operator: Operator, by_provider: bool) -> SignedIn {
        let claimed = operator.claimed.iter().filter(|_| by_provider);
        let roles = operator.grants.iter().chain(claimed);
        let grants: Vec<Grant> = roles.map(|&(app, role)| Grant { role, app }).collect();
        let caller = Caller::operator(operator.id, grants.clone());
        SignedIn { caller, email: operator.email, grants, by_provider }
    }
}

/// Creates an operator with a role in one app or, if `app` is None, in all. Returns a code with which the operator signs in and
/// chooses a password.
///
/// # Errors
/// Returns [`Conflict::NameTaken`] if there is an operator with this email.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    email: &str,
    app: Option<AppId>,
    role: Role,
) -> Result<String, OperationError> {
    let actor = caller.authorize(Action::OperatorCreate, None)?;
    roles::check_own(caller, role, app)?;
    let email = normal(email);
    if !is_email(&email) {
        return Err(OperationError::Invalid(vec![email_problem()]));
    }
    let created = operations.store.control().create_operator(&email, (app, role), actor).await?;
    let operator = created.ok_or(OperationError::Conflict(Conflict::NameTaken))?;
    put_code(&operations.store, Some(operator), false, None).await
}

/// Returns a code with which an operator signs in, in place of earlier codes. Unless `signs_in` is true, the operator has to choose a new
/// password.
///
/// # Errors
/// Returns [`Object::Operator`] if there is no such operator, or if it is disabled.
pub async fn link(
    operations: &Operations,
    caller: &Caller,
    email: &str,
    signs_in: bool,
) -> Result<String, OperationError> {
    let actor = caller.authorize(Action::OperatorLink, None)?;
    let found = operations.store.control().find_operator(&normal(email)).await?;
    let operator = found.filter(|operator| !operator.disabled);
    let operator = operator.ok_or(OperationError::NotFound(Object::Operator))?;
    put_code(&operations.store, Some(operator.id), signs_in, Some(actor)).await
}

/// Finds an operator by email.
///
/// # Errors
/// Returns [`Object::Operator`] if there is no such operator.
pub async fn find(operations: &Operations, caller: &Caller, email: &str) -> Result<Operator, OperationError> {
    caller.may(Permission::ManageOperators, None)?;
    let found = database(operations.store.control().find_operator(&normal(email))).await?;
    found.ok_or(OperationError::NotFound(Object::Operator))
}

/// Lists all operators.
pub async fn list(operations: &Operations, caller: &Caller) -> Result<Vec<Operator>, OperationError> {
    caller.may(Permission::ManageOperators, None)?;
    database(operations.store.control().list_operators()).await
}

/// Disables an operator, whose sessions end, or enables one again.
///
/// # Errors
/// Returns [`Object::Operator`] if there is no such operator, and [`Conflict::LastAdministrator`] if no other enabled one has the role admin in
/// all apps.
pub async fn disable(
    operations: &Operations,
    caller: &Caller,
    email: &str,
    disabled: bool,
) -> Result<(), OperationError> {
    let action = if disabled { Action::OperatorDisable } else { Action::OperatorEnable };
    let actor = caller.authorize(action, None)?;
    let changed = operations.store.control().disable_operator(&normal(email), disabled, actor).await?;
    changed.map_err(unchanged)
}

/// Unlinks an operator from the identities at OpenID providers. Their roles by claim, sessions and codes end. The next identity with the
/// operator's email is linked instead.
///
/// # Errors
/// Returns [`Object::Operator`] if there is no such operator, and [`Object::Identity`] if it has no identity.
pub async fn unlink(operations: &Operations, caller: &Caller, email: &str) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::OperatorUnlink, None)?;
    match operations.store.control().unlink_operator(&normal(email), actor).await? {
        Some(true) => Ok(()),
        Some(false) => Err(OperationError::NotFound(Object::Identity)),
        None => Err(OperationError::NotFound(Object::Operator)),
    }
}

fn unchanged(reason: Unchanged) -> OperationError {
    match reason {
        Unchanged::UnknownOperator => OperationError::NotFound(Object::Operator),
        Unchanged::Overtaken => OperationError::Conflict(Conflict::RoleOvertaken),
        Unchanged::LastAdministrator => OperationError::Conflict(Conflict::LastAdministrator),
    }
}

fn session_of<'a>(digest: &'a [u8], method: &'a str, client: &'a Client, network: &'a str) -> NewSession<'a> {
    let browser = client.browser.as_str();
    NewSession { digest, lifetime: SESSION_LIFETIME, method, authenticated_at: None, network, browser }
}

async fn put_code(
    store: &Store,
    operator: Option<i64>,
    signs_in: bool,
    actor: Option<&Actor>,
) -> Result<String, OperationError> {
    let code = random_token("", TOKEN_BYTES)?;
    let digest = sha256(code.as_bytes());
    database(store.control().put_operator_code(&digest, operator, (signs_in, CODE_LIFETIME), actor)).await?;
    Ok(code)
}

fn normal(email: &str) -> String {
    email.trim().to_lowercase()
}

fn is_email(email: &str) -> bool {
    let parts = email.split_once('@');
    let is_split = parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    is_split && email.len() <= LONGEST_EMAIL && !email.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn email_problem() -> Problem {
    Problem::new("email", "invalid_email", "email must be an email address, such as ada@example.com")
}

fn bad_email() -> SignInError {
    SignInError::Invalid(vec![email_problem()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_are_compared_in_lower_case_and_must_have_both_parts() {
        assert_eq!(normal(" Ada@Example.COM "), "ada@example.com");
        assert!(is_email("ada@example.com"));
        for refused in ["", "ada", "@example.com", "ada@", "ada @example.com", "ada@exam\nple.com"] {
            assert!(!is_email(refused), "{refused}");
        }
    }
}
