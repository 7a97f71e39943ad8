//! Apps (tenants) and the secrets that prove their callers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row, Transaction};

use crate::{Error, Store, audit};

/// Apps with their live secrets, and `$rest` of the statement.
macro_rules! select_apps {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, api_key, disabled, development, created_at, digests, expiries
             FROM app, LATERAL (
                 SELECT array_agg(digest ORDER BY id DESC) AS digests,
                        array_agg(expires_at ORDER BY id DESC) AS expiries
                 FROM app_secret WHERE app_id = app.id AND (expires_at IS NULL OR expires_at > now())
             ) AS live ",
            $rest
        )
    };
}

/// An app to create.
#[derive(Clone, Copy, Debug)]
pub struct NewApp<'a> {
    /// Unique in the installation, not empty.
    pub name: &'a str,
    /// The public half of its credentials.
    pub api_key: &'a str,
    /// Whether the relaxations for development apply.
    pub development: bool,
}

/// A secret of an app, in the two forms in which it is kept.
#[derive(Clone, Copy)]
pub struct NewSecret<'a> {
    /// Proves a caller.
    pub digest: &'a [u8],
    /// The secret itself under the master key, in the context `app-secret:{app}`.
    pub sealed: &'a [u8],
}

/// A live secret of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSecret {
    /// Digest of the secret, to compare in constant time.
    pub digest: Vec<u8>,
    /// When it stops to be accepted; None for the newest.
    pub expires_at: Option<Timestamp>,
}

/// An app and its live secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// The internal number; every tenant row's key starts with it.
    pub id: AppId,
    /// Unique in the installation.
    pub name: String,
    /// The public half of its credentials.
    pub api_key: String,
    /// Whether its calls are refused.
    pub disabled: bool,
    /// Whether the relaxations for development apply.
    pub development: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Secrets that had not expired when they were read, newest first; at most two.
    pub secrets: Vec<AppSecret>,
}

/// An app that exists once it is committed. Its id is known before, because its first secret is sealed for it.
/// Dropped uncommitted, it never was.
#[derive(Debug)]
pub struct AppDraft {
    transaction: Transaction<'static, Postgres>,
    id: AppId,
}

impl AppDraft {
    /// The id that the app will have.
    #[must_use]
    pub fn id(&self) -> AppId {
        self.id
    }

    /// Stores the app's first secret and makes the app visible.
    ///
    /// # Errors
    /// The database failed; there is no such app then.
    pub async fn commit(mut self, secret: NewSecret<'_>) -> Result<AppId, Error> {
        insert_secret(&mut self.transaction, self.id, secret).await?;
        self.transaction.commit().await?;
        Ok(self.id)
    }
}

impl Store {
    /// Begins an app; [`AppDraft::commit`] completes it. None: the name is taken.
    ///
    /// # Errors
    /// The database failed, or refused the name or the key.
    pub async fn create_app(&self, app: NewApp<'_>, actor: &str) -> Result<Option<AppDraft>, Error> {
        let mut transaction = self.pool.begin().await?;
        let id: Option<i64> = sqlx::query_scalar(
            "INSERT INTO app (name, api_key, development) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO NOTHING RETURNING id",
        )
        .bind(app.name)
        .bind(app.api_key)
        .bind(app.development)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(id) = id.map(AppId) else { return Ok(None) };
        audit::record(&mut transaction, id, actor, "app.create", app.name).await?;
        Ok(Some(AppDraft { transaction, id }))
    }

    /// Gives the app a new secret. The previous one lives on for `grace`, older ones end now: at most two are live.
    /// False: there is no such app.
    ///
    /// # Errors
    /// The database failed; the secrets are as before.
    pub async fn rotate_secret(
        &self,
        app: AppId,
        secret: NewSecret<'_>,
        grace: Duration,
        actor: &str,
    ) -> Result<bool, Error> {
        let mut transaction = self.pool.begin().await?;
        // Rotations of one app wait for each other, so that no third secret stays live.
        let name: Option<String> = sqlx::query_scalar("SELECT name FROM app WHERE id = $1 FOR UPDATE")
            .bind(app.0)
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(name) = name else { return Ok(false) };
        sqlx::query("DELETE FROM app_secret WHERE app_id = $1 AND expires_at IS NOT NULL")
            .bind(app.0)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("UPDATE app_secret SET expires_at = now() + make_interval(secs => $2) WHERE app_id = $1")
            .bind(app.0)
            .bind(grace.as_secs_f64())
            .execute(&mut *transaction)
            .await?;
        insert_secret(&mut transaction, app, secret).await?;
        audit::record(&mut transaction, app, actor, "app.rotate-secret", &name).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// The app that a caller's API key names.
    ///
    /// # Errors
    /// The database failed.
    pub async fn app_by_key(&self, api_key: &str) -> Result<Option<App>, Error> {
        let row =
            sqlx::query(select_apps!("WHERE api_key = $1")).bind(api_key).fetch_optional(&self.pool).await?;
        Ok(row.as_ref().map(read_app).transpose()?)
    }

    /// The app that an operator names: by its name, else by its id.
    ///
    /// # Errors
    /// The database failed.
    pub async fn app_by_name_or_id(&self, name_or_id: &str) -> Result<Option<App>, Error> {
        let row =
            sqlx::query(select_apps!("WHERE name = $1 OR id::text = $1 ORDER BY name = $1 DESC LIMIT 1"))
                .bind(name_or_id)
                .fetch_optional(&self.pool)
                .await?;
        Ok(row.as_ref().map(read_app).transpose()?)
    }

    /// Every app, in order of creation.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list_apps(&self) -> Result<Vec<App>, Error> {
        let rows = sqlx::query(select_apps!("ORDER BY id")).fetch_all(&self.pool).await?;
        Ok(rows.iter().map(read_app).collect::<Result<_, _>>()?)
    }
}

async fn insert_secret(
    connection: &mut PgConnection,
    app: AppId,
    secret: NewSecret<'_>,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO app_secret (app_id, digest, sealed) VALUES ($1, $2, $3)")
        .bind(app.0)
        .bind(secret.digest)
        .bind(secret.sealed)
        .execute(connection)
        .await?;
    Ok(())
}

fn read_app(row: &PgRow) -> Result<App, sqlx::Error> {
    let digests: Option<Vec<Vec<u8>>> = row.try_get("digests")?;
    let expiries: Option<Vec<Option<DateTime<Utc>>>> = row.try_get("expiries")?;
    let secrets = digests.unwrap_or_default().into_iter().zip(expiries.unwrap_or_default());
    Ok(App {
        id: AppId(row.try_get("id")?),
        name: row.try_get("name")?,
        api_key: row.try_get("api_key")?,
        disabled: row.try_get("disabled")?,
        development: row.try_get("development")?,
        created_at: row.try_get::<DateTime<Utc>, _>("created_at")?.into(),
        secrets: secrets
            .map(|(digest, expires_at)| AppSecret { digest, expires_at: expires_at.map(Into::into) })
            .collect(),
    })
}
