//! The keys that bearer tokens of an app's users are signed with.

use chrono::{DateTime, Utc};
use domain::{AppId, SigningAlgorithm, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::{Error, Store, database::audit};

/// Keys that an app may have at a time: a token that names none is tried with each.
pub const MAX_SIGNING_KEYS: i64 = 8;

/// What tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// The public half of a pair, as SubjectPublicKeyInfo (RFC 5280, section 4.1) in PEM.
    PublicKey(String),
    /// A shared secret under the master key, in the context `signing-key:{app}:{kid}`.
    Sealed(Vec<u8>),
}

/// A key that is accepted until it is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Names the key in the header of a token; unique in the app, not empty.
    pub kid: String,
    /// The one algorithm that the key is for.
    pub algorithm: SigningAlgorithm,
    /// What tokens are verified with.
    pub verifier: Verifier,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A key to store.
#[derive(Clone, Copy, Debug)]
pub struct NewSigningKey<'a> {
    /// Names the key in the header of a token; unique in the app, not empty.
    pub kid: &'a str,
    /// The one algorithm that the key is for.
    pub algorithm: SigningAlgorithm,
    /// What tokens are verified with.
    pub verifier: &'a Verifier,
}

impl Store {
    /// Gives the app another signing key. False: it has [`MAX_SIGNING_KEYS`] already.
    ///
    /// # Errors
    /// The database failed, there is no such app, or the `kid` is taken.
    pub async fn create_signing_key(
        &self,
        app: AppId,
        key: NewSigningKey<'_>,
        actor: &str,
    ) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        // Creations for one app wait for each other, so that no key goes over the bound.
        sqlx::query("SELECT id FROM app WHERE id = $1 FOR UPDATE")
            .bind(app.0)
            .execute(&mut *transaction)
            .await?;
        let keys: i64 = sqlx::query_scalar("SELECT count(*) FROM signing_key WHERE app_id = $1")
            .bind(app.0)
            .fetch_one(&mut *transaction)
            .await?;
        if keys >= MAX_SIGNING_KEYS {
            return Ok(false);
        }
        let (public_key, sealed) = match key.verifier {
            Verifier::PublicKey(pem) => (Some(pem), None),
            Verifier::Sealed(sealed) => (None, Some(sealed)),
        };
        sqlx::query(
            "INSERT INTO signing_key (app_id, kid, algorithm, public_key, sealed) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(app.0)
        .bind(key.kid)
        .bind(key.algorithm.as_str())
        .bind(public_key)
        .bind(sealed)
        .execute(&mut *transaction)
        .await?;
        audit::record(&mut transaction, app, actor, "app.signing-key.create", key.kid).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Takes a signing key away: tokens signed with it are worth nothing from now on. False: there is no such key.
    ///
    /// # Errors
    /// The database failed; the key is still there.
    pub async fn revoke_signing_key(&self, app: AppId, kid: &str, actor: &str) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        let deleted = sqlx::query("DELETE FROM signing_key WHERE app_id = $1 AND kid = $2")
            .bind(app.0)
            .bind(kid)
            .execute(&mut *transaction)
            .await?;
        if deleted.rows_affected() == 0 {
            return Ok(false);
        }
        audit::record(&mut transaction, app, actor, "app.signing-key.revoke", kid).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// The keys in the aggregates of an app's row.
pub(crate) fn read_all(row: &PgRow) -> Result<Vec<SigningKey>, sqlx::Error> {
    let kids: Option<Vec<String>> = row.try_get("kids")?;
    let algorithms: Option<Vec<String>> = row.try_get("algorithms")?;
    let public_keys: Option<Vec<Option<String>>> = row.try_get("public_keys")?;
    let sealed: Option<Vec<Option<Vec<u8>>>> = row.try_get("sealed_keys")?;
    let times: Option<Vec<DateTime<Utc>>> = row.try_get("key_times")?;
    let verifiers = public_keys.unwrap_or_default().into_iter().zip(sealed.unwrap_or_default());
    let named = kids.unwrap_or_default().into_iter().zip(algorithms.unwrap_or_default());
    let keys = named.zip(verifiers).zip(times.unwrap_or_default());
    keys.map(|(((kid, algorithm), (public_key, sealed)), created_at)| {
        let algorithm = algorithm.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        let verifier = match public_key {
            Some(pem) => Verifier::PublicKey(pem),
            None => Verifier::Sealed(sealed.unwrap_or_default()),
        };
        Ok(SigningKey { kid, algorithm, verifier, created_at: created_at.into() })
    })
    .collect()
}
