use std::collections::HashMap;

use domain::content::Object;
use domain::profile::Author;
use domain::web_push::Subscription;
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::directory::device::{claim_user, connect};
use crate::directory::user;
use crate::directory::user::proof::{self, Writer};
use crate::{Directory, Error, deliveries::suppression};

/// The user is part of the name, because the endpoint may later be registered for another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionName {
    pub app: AppId,
    pub user: UserNumber,
    /// URL of the push service.
    pub endpoint: String,
}

/// Keys with which messages to a browser are encrypted (RFC 8291).
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserKeys {
    /// Uncompressed point of P-256.
    pub p256dh: Vec<u8>,
    pub auth: Vec<u8>,
}

impl Directory<'_> {
    /// Returns the keys in the order of the names; None if the subscription does not exist, has expired, or now belongs to another user.
    pub async fn browser_keys(self, named: &[SubscriptionName]) -> Result<Vec<Option<BrowserKeys>>, Error> {
        columns! { name in named =>
            apps = name.app.0,
            users = name.user.0,
            endpoints = name.endpoint.clone(),
        }
        let rows = sqlx::query!(
            r#"SELECT named.place AS "place!", s.p256dh, s.auth FROM web_push_subscription s
             JOIN unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY
               AS named (app_id, user_number, endpoint, place) USING (app_id, user_number, endpoint)
             WHERE s.expires_at IS NULL OR s.expires_at > now()"#,
            &apps,
            &users,
            &endpoints
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(row.place, BrowserKeys { p256dh: row.p256dh, auth: row.auth });
        }
        Ok((1..).zip(named).map(|(place, _)| found.remove(&place)).collect())
    }

    /// Sets the web push subscription of a device. Creates the user and the device if necessary. The subscription of another device with
    /// the same endpoint is deleted. A suppression of the endpoint is lifted.
    pub async fn subscribe(
        self,
        app: AppId,
        writer: impl Into<Writer<'_>>,
        device_id: &str,
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let writer = writer.into();
        let _turn = self.0.writers.turn(app, writer.user).await;
        let mut transaction = self.0.begin().await?;
        let user = claim_user(&mut transaction, app, writer, &Object::new()).await?;
        if !writer.author.has_proof() {
            proof::admit_unproven(&mut transaction, app).await?;
        }
        connect(&mut transaction, app, user, (device_id, None), writer.author).await?;
        lock_endpoint(&mut transaction, app, &subscription.endpoint).await?;
        let device = (device_id, writer.author);
        put(&mut transaction, app, user, device, subscription).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Returns false if the device has no subscription.
    pub async fn unsubscribe(
        self,
        app: AppId,
        writer: impl Into<Writer<'_>>,
        device_id: &str,
    ) -> Result<bool, Error> {
        let writer = writer.into();
        let mut transaction = self.0.begin().await?;
        let Some(user) = user::lock(&mut transaction, app, writer.user).await? else { return Ok(false) };
        let deleted = sqlx::query!(
            "DELETE FROM web_push_subscription WHERE app_id = $1 AND user_number = $2 AND device_id = $3",
            app.0,
            user.number.0,
            device_id
        )
        .execute(&mut *transaction)
        .await?;
        if writer.author.has_proof() {
            proof::end_many(&mut transaction, app, &[user.number]).await?;
        }
        transaction.commit().await?;
        Ok(deleted.rows_affected() > 0)
    }
}

/// Locks the endpoint until the transaction ends. Returns the user and the id of the device that has the endpoint.
pub(crate) async fn lock_endpoint(
    connection: &mut PgConnection,
    app: AppId,
    endpoint: &str,
) -> Result<Option<(UserNumber, String)>, Error> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended($2, $1))", app.0, endpoint)
        .execute(&mut *connection)
        .await?;
    let owner = sqlx::query!(
        "SELECT user_number, device_id FROM web_push_subscription WHERE app_id = $1 AND endpoint = $2",
        app.0,
        endpoint
    )
    .fetch_optional(connection)
    .await?;
    Ok(owner.map(|owner| (UserNumber(owner.user_number), owner.device_id)))
}

/// Deletes the subscription of any other device with the same endpoint, and lifts a suppression of the endpoint. The caller must have
/// locked the endpoint.
pub(crate) async fn put(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    (device_id, author): (&str, Author),
    subscription: &Subscription,
) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM web_push_subscription WHERE app_id = $1 AND endpoint = $2",
        app.0,
        &subscription.endpoint
    )
    .execute(&mut *connection)
    .await?;
    suppression::lift_subscribed(connection, app, &subscription.endpoint).await?;
    sqlx::query!(
        "INSERT INTO web_push_subscription (app_id, user_number, device_id, endpoint, p256dh, auth, expires_at, proven)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (app_id, user_number, device_id) DO UPDATE SET
             endpoint = excluded.endpoint, p256dh = excluded.p256dh, auth = excluded.auth,
             expires_at = excluded.expires_at, updated_at = now(), proven = excluded.proven",
        app.0,
        user.0,
        device_id,
        &subscription.endpoint,
        &subscription.p256dh,
        &subscription.auth,
        subscription.expires_at.map(instant),
        author.has_proof()
    )
    .execute(connection)
    .await?;
    Ok(())
}
