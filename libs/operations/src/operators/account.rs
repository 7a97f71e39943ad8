//! The account of the operator who asks: sessions and password. The token of the session is the proof.

use credentials::secrets::sha256;
use secrecy::{ExposeSecret as _, SecretString};
pub use store::control::operator::session::OpenSession;

use super::{Client, SESSION_IDLE, SignInError, SignIns, SignedIn, check_password};
use crate::waiting::database;
use crate::{Object, OperationError, Permission};

impl SignIns {
    /// Lists the sessions of the operator of a session, with that session first.
    pub async fn sessions(&self, session: &str) -> Result<Vec<OpenSession>, OperationError> {
        let digest = sha256(session.as_bytes());
        database(self.store.control().sessions_beside(&digest, SESSION_IDLE)).await
    }

    /// Ends another session of the operator of a session.
    ///
    /// # Errors
    /// Returns [`Object::Session`] if it has ended already.
    pub async fn end_session(&self, session: &str, name: &[u8]) -> Result<(), OperationError> {
        let digest = sha256(session.as_bytes());
        let ended = database(self.store.control().end_sessions_beside(&digest, Some(name))).await?;
        if ended == 0 { Err(OperationError::NotFound(Object::Session)) } else { Ok(()) }
    }

    /// Ends all other sessions of the operator of a session.
    pub async fn end_other_sessions(&self, session: &str) -> Result<(), OperationError> {
        let digest = sha256(session.as_bytes());
        database(self.store.control().end_sessions_beside(&digest, None)).await.map(drop)
    }

    /// True if operators may have passwords here.
    #[must_use]
    pub fn uses_passwords(&self) -> bool {
        self.passwords
    }

    /// Replaces the password of the operator of a session, after confirming the step with the old one. The operator's other sessions and links
    /// end.
    ///
    /// # Errors
    /// Returns [`SignInError::ByProvider`] for a session by an OpenID provider, whose operator could otherwise stay after being removed there,
    /// the errors of [`SignIns::confirm`], and [`SignInError::Invalid`] if the new password is easy to guess.
    pub async fn change_password(
        &self,
        operator: &SignedIn,
        session: &str,
        (old, new): (SecretString, SecretString),
        client: &Client,
    ) -> Result<(), SignInError> {
        if !self.passwords {
            return Err(SignInError::PasswordsOff);
        }
        let actor = operator.caller.actor().ok_or(OperationError::Denied(Permission::View))?;
        let digest = sha256(session.as_bytes());
        let proof = database(self.store.control().session_proof(&digest, SESSION_IDLE)).await?;
        let proof = proof.ok_or(SignInError::Wrong)?;
        if proof.by_provider {
            return Err(SignInError::ByProvider);
        }
        self.confirm(session, &operator.email, old, client.address).await?;
        let (checked, email) = (new.clone(), operator.email.clone());
        self.blocking(move || check_password(checked.expose_secret(), &email)).await??;
        let hash = self.hash(new).await?;
        let changed = self.store.control().set_operator_password(proof.operator, &hash, &digest, actor);
        database(changed).await?;
        Ok(())
    }
}
