//! Key pairs with which apps identify themselves to web push services (VAPID, RFC 8292).

use domain::AppId;
use sqlx::PgConnection;

use crate::{Control, Error};

#[derive(Clone, Copy)]
pub struct NewVapidKey<'a> {
    /// Public key that browsers subscribe with: an uncompressed point of P-256 in base64url.
    pub public_key: &'a str,
    /// PKCS #8, encrypted with the master key in the context `vapid-key:{app}`.
    pub sealed: &'a [u8],
}

#[derive(Clone)]
pub struct VapidKeyRow {
    /// As in [`NewVapidKey`].
    pub public_key: String,
    /// As in [`NewVapidKey`].
    pub sealed: Vec<u8>,
}

impl Control<'_> {
    /// Does nothing if the app already has a key pair, because browsers may have subscribed with its public key.
    pub async fn add_vapid_key(self, app: AppId, key: NewVapidKey<'_>) -> Result<(), Error> {
        insert(&mut *self.0.pool.acquire().await?, app, key).await
    }

    pub async fn vapid_key(self, app: AppId) -> Result<Option<VapidKeyRow>, Error> {
        let key =
            sqlx::query_as!(VapidKeyRow, "SELECT public_key, sealed FROM vapid_key WHERE app_id = $1", app.0);
        Ok(key.fetch_optional(&self.0.pool).await?)
    }

    pub async fn vapid_public_key(self, app: AppId) -> Result<Option<String>, Error> {
        let key = sqlx::query_scalar!("SELECT public_key FROM vapid_key WHERE app_id = $1", app.0)
            .fetch_optional(&self.0.pool)
            .await?;
        Ok(key)
    }

    pub async fn apps_without_vapid_key(self) -> Result<Vec<AppId>, Error> {
        let apps = sqlx::query_scalar!(
            "SELECT id FROM app WHERE NOT EXISTS (SELECT FROM vapid_key WHERE app_id = app.id) ORDER BY id"
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(apps.into_iter().map(AppId).collect())
    }
}

pub(super) async fn insert(
    connection: &mut PgConnection,
    app: AppId,
    key: NewVapidKey<'_>,
) -> Result<(), Error> {
    sqlx::query!(
        "INSERT INTO vapid_key (app_id, public_key, sealed) VALUES ($1, $2, $3)
             ON CONFLICT (app_id) DO NOTHING",
        app.0,
        key.public_key,
        key.sealed
    )
    .execute(connection)
    .await?;
    Ok(())
}
