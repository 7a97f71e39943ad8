//! Keys that encrypt the tokens in links, for instance in the unsubscribe links that apps put into emails.

use std::time::Duration;

use domain::{Action, Actor, AppId};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Control, Error, database::audit::AuditEntry};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkKey {
    /// Part of each link.
    pub id: Uuid,
    pub app: AppId,
    /// Encrypted with the master key in the context `link-key:{app}`.
    pub sealed: Vec<u8>,
    /// Keys created by earlier releases only sign tokens.
    pub seals: bool,
}

impl Control<'_> {
    /// Stores the first key of an app, encrypted with the master key in the context `link-key:{app}`. Does nothing if the app already has a
    /// key.
    pub async fn add_link_key(self, app: AppId, sealed: &[u8]) -> Result<(), Error> {
        insert_first(&mut *self.0.pool.acquire().await?, app, sealed).await
    }

    /// Links with earlier keys stay valid for `grace`, or until their key expires if that is earlier. Returns the version of the new key,
    /// or None if the app does not exist.
    pub async fn rotate_link_key(
        self,
        app: AppId,
        sealed: &[u8],
        grace: Duration,
        actor: &Actor,
    ) -> Result<Option<i32>, Error> {
        let mut transaction = self.0.begin().await?;
        // The row lock serializes rotations of one app.
        let locked: Option<i64> =
            sqlx::query_scalar!("SELECT id FROM app WHERE id = $1 FOR NO KEY UPDATE", app.0)
                .fetch_optional(&mut *transaction)
                .await?;
        if locked.is_none() {
            return Ok(None);
        }
        sqlx::query!(
            "UPDATE app_link_key SET expires_at = least(expires_at, now() + make_interval(secs => $2))
             WHERE app_id = $1",
            app.0,
            grace.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await?;
        let version: i32 = sqlx::query_scalar!("INSERT INTO app_link_key (app_id, sealed, version)
             SELECT $1, $2, coalesce(max(version), 0) + 1 FROM app_link_key WHERE app_id = $1 RETURNING version", app.0, sealed)
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query!("DELETE FROM app_link_key WHERE app_id = $1 AND expires_at <= now()", app.0)
            .execute(&mut *transaction)
            .await?;
        AuditEntry::new(app, actor, Action::LinkKeyRotate, &version.to_string())
            .write(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(version))
    }

    /// Returns the newest key.
    pub async fn link_key(self, app: AppId) -> Result<Option<LinkKey>, Error> {
        let key = sqlx::query_as!(
            LinkKey,
            "SELECT id, app_id AS app, sealed, seals FROM app_link_key
             WHERE app_id = $1 ORDER BY version DESC LIMIT 1",
            app.0
        );
        Ok(key.fetch_optional(&self.0.pool).await?)
    }

    /// Returns the key with version 1, which old links use: they contain the id of the app instead of the id of a key. Returns None if the
    /// key has expired.
    pub async fn first_link_key(self, app: AppId) -> Result<Option<LinkKey>, Error> {
        let key = sqlx::query_as!(
            LinkKey,
            "SELECT id, app_id AS app, sealed, seals FROM app_link_key
             WHERE app_id = $1 AND version = 1 AND (expires_at IS NULL OR expires_at > now())",
            app.0
        );
        Ok(key.fetch_optional(&self.0.pool).await?)
    }

    /// None if the key is unknown or has expired.
    pub async fn find_link_key(self, id: Uuid) -> Result<Option<LinkKey>, Error> {
        let key = sqlx::query_as!(
            LinkKey,
            "SELECT id, app_id AS app, sealed, seals FROM app_link_key
             WHERE id = $1 AND (expires_at IS NULL OR expires_at > now())",
            id
        );
        Ok(key.fetch_optional(&self.0.pool).await?)
    }

    pub async fn apps_without_link_key(self) -> Result<Vec<AppId>, Error> {
        let apps = sqlx::query_scalar!(
            "SELECT id FROM app WHERE NOT EXISTS (SELECT FROM app_link_key WHERE app_id = app.id) ORDER BY id"
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(apps.into_iter().map(AppId).collect())
    }
}

pub(super) async fn insert_first(
    connection: &mut PgConnection,
    app: AppId,
    sealed: &[u8],
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO app_link_key (app_id, sealed)
             SELECT $1, $2 WHERE NOT EXISTS (SELECT FROM app_link_key WHERE app_id = $1)
             ON CONFLICT (app_id, version) DO NOTHING",
        app.0,
        sealed
    )
    .execute(connection)
    .await?;
    Ok(())
}
