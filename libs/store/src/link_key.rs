//! The keys that links of apps are signed with.

use domain::AppId;

use crate::{Error, Store};

impl Store {
    /// Gives the app its key, sealed in the context `link-key:{app}`. It keeps the one that it has: links out there
    /// are signed with that.
    ///
    /// # Errors
    /// The database failed, or there is no such app.
    pub async fn add_link_key(&self, app: AppId, sealed: &[u8]) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO app_link_key (app_id, sealed) VALUES ($1, $2) ON CONFLICT (app_id) DO NOTHING",
        )
        .bind(app.0)
        .bind(sealed)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The app's key as it is sealed; None for an app that has none yet.
    ///
    /// # Errors
    /// The database failed.
    pub async fn link_key(&self, app: AppId) -> Result<Option<Vec<u8>>, Error> {
        let sealed = sqlx::query_scalar("SELECT sealed FROM app_link_key WHERE app_id = $1")
            .bind(app.0)
            .fetch_optional(&self.pool)
            .await?;
        Ok(sealed)
    }

    /// The apps that have no key yet.
    ///
    /// # Errors
    /// The database failed.
    pub async fn apps_without_link_key(&self) -> Result<Vec<AppId>, Error> {
        let apps = sqlx::query_scalar(
            "SELECT id FROM app WHERE NOT EXISTS (SELECT FROM app_link_key WHERE app_id = app.id) ORDER BY id",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(apps.into_iter().map(AppId).collect())
    }
}
