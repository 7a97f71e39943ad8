//! Where browsers take web push: the subscriptions of devices.

use chrono::{DateTime, Utc};
use domain::AppId;
use domain::content::Object;
use domain::web_push::Subscription;
use sqlx::PgConnection;

use crate::device::{claim_user, connect};
use crate::{Error, Store};

impl Store {
    /// Gives a device of the user its subscription, in place of the one that it had; user and device are created where
    /// they are missing. Any other device that had this endpoint, whosever in the app it is, loses it.
    ///
    /// # Errors
    /// The database failed; then nothing has changed.
    pub async fn subscribe(
        &self,
        app: AppId,
        identifier: &str,
        device_id: &str,
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let mut transaction = self.pool.begin().await?;
        let user = claim_user(&mut transaction, app, identifier, &Object::new()).await?;
        connect(&mut transaction, app, user, device_id, None).await?;
        take_endpoint(&mut transaction, app, &subscription.endpoint).await?;
        sqlx::query(
            "INSERT INTO web_push_subscription (app_id, user_number, device_id, endpoint, p256dh, auth, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (app_id, user_number, device_id) DO UPDATE SET
                 endpoint = excluded.endpoint, p256dh = excluded.p256dh, auth = excluded.auth,
                 expires_at = excluded.expires_at, updated_at = now()",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(device_id)
        .bind(&subscription.endpoint)
        .bind(&subscription.p256dh)
        .bind(&subscription.auth)
        .bind(subscription.expires_at.map(DateTime::<Utc>::from))
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Takes its subscription from a device of the user. False: it had none.
    ///
    /// # Errors
    /// The database failed.
    pub async fn unsubscribe(&self, app: AppId, identifier: &str, device_id: &str) -> Result<bool, Error> {
        let deleted = sqlx::query(
            "DELETE FROM web_push_subscription WHERE app_id = $1 AND device_id = $3
             AND user_number = (SELECT number FROM app_user WHERE app_id = $1 AND identifier = $2)",
        )
        .bind(app.0)
        .bind(identifier)
        .bind(device_id)
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected() > 0)
    }
}

/// Takes an endpoint from whoever has it. Others that want it wait until the transaction ends.
async fn take_endpoint(connection: &mut PgConnection, app: AppId, endpoint: &str) -> Result<(), Error> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($2, $1))")
        .bind(app.0)
        .bind(endpoint)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM web_push_subscription WHERE app_id = $1 AND endpoint = $2")
        .bind(app.0)
        .bind(endpoint)
        .execute(connection)
        .await?;
    Ok(())
}
