use domain::{Action, Actor, AppId, SigningAlgorithm, Timestamp};

use crate::{Control, Error, database::audit::AuditEntry};

/// Limited because a token without a key id is checked against each key.
pub const MAX_SIGNING_KEYS: i64 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// SubjectPublicKeyInfo (RFC 5280, section 4.1) in PEM.
    PublicKey(String),
    /// Shared secret, encrypted with the master key in the context `signing-key:{app}:{kid}`.
    Sealed(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Key id in the header of tokens, unique in the app and not empty.
    pub kid: String,
    /// The only algorithm accepted with this key.
    pub algorithm: SigningAlgorithm,
    pub verifier: Verifier,
    pub created_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub struct NewSigningKey<'a> {
    pub kid: &'a str,
    pub algorithm: SigningAlgorithm,
    pub verifier: &'a Verifier,
}

impl Control<'_> {
    /// Returns false if the app already has [`MAX_SIGNING_KEYS`] keys.
    ///
    /// # Errors
    /// Returns an error if the `kid` is taken.
    pub async fn create_signing_key(
        self,
        app: AppId,
        key: NewSigningKey<'_>,
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        // The row lock serializes creations for one app, so that the limit holds.
        sqlx::query!("SELECT id FROM app WHERE id = $1 FOR UPDATE", app.0)
            .fetch_optional(&mut *transaction)
            .await?;
        let keys =
            sqlx::query_scalar!(r#"SELECT count(*) AS "keys!" FROM signing_key WHERE app_id = $1"#, app.0)
                .fetch_one(&mut *transaction)
                .await?;
        if keys >= MAX_SIGNING_KEYS {
            return Ok(false);
        }
        let (public_key, sealed) = match key.verifier {
            Verifier::PublicKey(pem) => (Some(pem), None),
            Verifier::Sealed(sealed) => (None, Some(sealed)),
        };
        sqlx::query!("INSERT INTO signing_key (app_id, kid, algorithm, public_key, sealed) VALUES ($1, $2, $3, $4, $5)", app.0, key.kid, key.algorithm.as_str(), public_key, sealed)
        .execute(&mut *transaction)
        .await?;
        AuditEntry::new(app, actor, Action::SigningKeyCreate, key.kid).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns false if the key does not exist.
    pub async fn revoke_signing_key(self, app: AppId, kid: &str, actor: &Actor) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let deleted = sqlx::query!("DELETE FROM signing_key WHERE app_id = $1 AND kid = $2", app.0, kid)
            .execute(&mut *transaction)
            .await?;
        if deleted.rows_affected() == 0 {
            return Ok(false);
        }
        AuditEntry::new(app, actor, Action::SigningKeyRevoke, kid).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }
}
