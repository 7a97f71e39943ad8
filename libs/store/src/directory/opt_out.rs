//! Opt-out and opt-in of SMS recipients, who reply to a message with a keyword such as STOP.

use domain::AppId;
use uuid::Uuid;

use crate::{Directory, Error};

const CODE: &str = "STOP";

impl Directory<'_> {
    /// Suppresses a phone number at the request of its owner. The suppression contains the id of the last delivery to the number, or the
    /// nil UUID. Returns false if the number was already suppressed.
    pub async fn opt_out_of_sms(self, app: AppId, number: &str) -> Result<bool, Error> {
        let last: Option<Uuid> = sqlx::query_scalar!(
            "SELECT id FROM delivery WHERE app_id = $1 AND channel = 'sms' AND target = $2
             ORDER BY settled_at DESC NULLS LAST LIMIT 1",
            app.0,
            number
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let written = sqlx::query!(
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code) VALUES ($1, 'sms', $2, $3, $4)
             ON CONFLICT DO NOTHING",
            app.0,
            number,
            last.unwrap_or(Uuid::nil()),
            CODE
        )
        .execute(&self.0.pool)
        .await?;
        Ok(written.rows_affected() > 0)
    }

    /// Lifts the suppression of a phone number at the request of its owner, whatever its cause: the owner's message proves that the number
    /// is in use. Returns true if the number was suppressed.
    pub async fn opt_in_to_sms(self, app: AppId, number: &str) -> Result<bool, Error> {
        let lifted = sqlx::query!(
            "DELETE FROM suppression WHERE app_id = $1 AND channel = 'sms' AND target = $2",
            app.0,
            number
        )
        .execute(&self.0.pool)
        .await?;
        Ok(lifted.rows_affected() > 0)
    }
}
