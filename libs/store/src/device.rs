//! Devices that users signed in on.

use domain::{AppId, UserNumber};

use crate::{Error, Store};

impl Store {
    /// Notes that the user is connected on a device, which is added if it is new.
    ///
    /// # Errors
    /// The database failed, or there is no such user.
    pub async fn connect_device(
        &self,
        app: AppId,
        user: UserNumber,
        device_id: &str,
        device_type: &str,
    ) -> Result<(), Error> {
        sqlx::query(
            "INSERT INTO device (app_id, user_number, device_id, device_type) VALUES ($1, $2, $3, $4)
             ON CONFLICT (app_id, user_number, device_id)
             DO UPDATE SET device_type = excluded.device_type, connected_at = now()",
        )
        .bind(app.0)
        .bind(user.0)
        .bind(device_id)
        .bind(device_type)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
