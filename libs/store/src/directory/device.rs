pub mod unproven;

use std::collections::HashMap;

use domain::content::Object;
use domain::device::MAX_DEVICES;
use domain::problem::UnknownName;
use domain::profile::{self, Author};
use domain::{AppId, DeviceType, Timestamp, UserNumber};
use sqlx::PgConnection;

use crate::control::quota::{self, Quota};
use crate::directory::user::merge_locked;
use crate::directory::user::proof::Writer;
use crate::{Directory, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Identifier chosen by the client.
    pub device_id: String,
    pub device_type: Option<DeviceType>,
    /// Time of the last connection.
    pub connected_at: Timestamp,
    /// True if the device has a usable web push subscription.
    pub web_push: bool,
}

impl Directory<'_> {
    /// Records that the user connected with a device, and merges `pairs` into the user's profile. `pairs` must be empty or contain only a
    /// push token. Creates the user and the device if they do not exist. If `device_type` is None, the device keeps its type. If the caller
    /// has proved the user's identity, the device's secret becomes invalid, because the caller does not need it.
    pub async fn connect_device(
        self,
        app: AppId,
        writer: impl Into<Writer<'_>>,
        pairs: &Object,
        device_id: &str,
        device_type: Option<DeviceType>,
    ) -> Result<(), Error> {
        let writer = writer.into();
        let _turn = self.0.writers.turn(app, writer.user).await;
        let mut transaction = self.0.begin().await?;
        let user = claim_user(&mut transaction, app, writer, pairs).await?;
        connect(&mut transaction, app, user, (device_id, device_type), writer.author).await?;
        if let Some(target) = profile::push_targets(&profile::merged(&Object::new(), pairs)?).last() {
            sqlx::query!(
                "UPDATE device SET push_target = $4 WHERE app_id = $1 AND user_number = $2 AND device_id = $3",
                app.0,
                user.0,
                device_id,
                target
            )
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Last connected first.
    pub async fn list_devices(self, app: AppId, user: UserNumber) -> Result<Vec<Device>, Error> {
        Ok(self.list_devices_of(app, &[user]).await?.remove(&user).unwrap_or_default())
    }

    /// Last connected first.
    pub async fn list_devices_of(
        self,
        app: AppId,
        users: &[UserNumber],
    ) -> Result<HashMap<UserNumber, Vec<Device>>, Error> {
        let rows = sqlx::query!(
            r#"SELECT d.user_number, d.device_id, d.device_type, d.connected_at,
               s.device_id IS NOT NULL AND NOT EXISTS (SELECT FROM suppression dead
                 WHERE (dead.app_id, dead.channel, dead.target) = (s.app_id, 'webPush', s.endpoint)) AS "web_push!"
             FROM device d LEFT JOIN web_push_subscription s
               ON (s.app_id, s.user_number, s.device_id) = (d.app_id, d.user_number, d.device_id)
                 AND (s.expires_at IS NULL OR s.expires_at > now())
             WHERE d.app_id = $1 AND d.user_number = ANY($2) ORDER BY d.connected_at DESC, d.device_id"#,
            app.0,
            &users.iter().map(|user| user.0).collect::<Vec<_>>()
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut devices: HashMap<UserNumber, Vec<Device>> = HashMap::new();
        for row in rows {
            let device_type = row.device_type.as_deref().map(str::parse).transpose();
            devices.entry(UserNumber(row.user_number)).or_default().push(Device {
                device_id: row.device_id,
                device_type: device_type
                    .map_err(|error: UnknownName| Error::Unreadable(error.to_string()))?,
                connected_at: row.connected_at.into(),
                web_push: row.web_push,
            });
        }
        Ok(devices)
    }
}

/// If the caller has a proof, ends the targets that callers without one registered. Until the transaction ends, other writers of the user's
/// profile or devices wait.
pub(crate) async fn claim_user(
    connection: &mut PgConnection,
    app: AppId,
    writer: Writer<'_>,
    pairs: &Object,
) -> Result<UserNumber, Error> {
    merge_locked(connection, app, writer.user, pairs, writer.author).await
}

/// Adds or updates a device. If the caller has proved the user's identity, removes the device's secret. Of surplus devices above
/// [`MAX_DEVICES`], deletes unprotected ones first (without a secret, and never connected by a caller with a proof), and among equals those
/// that connected least recently.
pub(crate) async fn connect(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    (device_id, device_type): (&str, Option<DeviceType>),
    author: Author,
) -> Result<(), Error> {
    let created = sqlx::query_scalar!(
        r#"INSERT INTO device (app_id, user_number, device_id, device_type, proven) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (app_id, user_number, device_id)
         DO UPDATE SET device_type = coalesce(excluded.device_type, device.device_type), connected_at = now(),
           proven = device.proven OR excluded.proven,
           proof_digest = CASE WHEN excluded.proven THEN NULL ELSE device.proof_digest END
         RETURNING xmax = 0 AS "created!""#,
        app.0,
        user.0,
        device_id,
        device_type.map(DeviceType::as_str),
        author.has_proof()
    )
    .fetch_one(&mut *connection)
    .await?;
    if !created {
        return Ok(());
    }
    sqlx::query!(
        "DELETE FROM device WHERE app_id = $1 AND user_number = $2 AND device_id IN (
             SELECT device_id FROM device WHERE app_id = $1 AND user_number = $2 AND device_id <> $3
             ORDER BY proven OR proof_digest IS NOT NULL DESC, connected_at DESC, device_id OFFSET $4)",
        app.0,
        user.0,
        device_id,
        MAX_DEVICES - 1
    )
    .execute(&mut *connection)
    .await?;
    quota::check(connection, app, Quota::Devices).await
}
