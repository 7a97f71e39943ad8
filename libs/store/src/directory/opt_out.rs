//! Opt-out and opt-in by recipients of SMS.

use domain::AppId;
use uuid::Uuid;

use crate::{Error, Store};

/// Code of a suppression that the recipient asked for.
const CODE: &str = "STOP";

impl Store {
    /// Suppresses a number whose owner wants no more messages. Like a suppression by a provider, it refers to the last
    /// delivery to the number. Returns false if the number was suppressed already.
    pub async fn opt_out_of_sms(&self, app: AppId, number: &str) -> Result<bool, Error> {
        let last: Option<Uuid> = sqlx::query_scalar(
            "SELECT id FROM delivery WHERE app_id = $1 AND channel = 'sms' AND target = $2
             ORDER BY settled_at DESC NULLS LAST LIMIT 1",
        )
        .bind(app.0)
        .bind(number)
        .fetch_optional(&self.pool)
        .await?;
        let written = sqlx::query(
            "INSERT INTO suppression (app_id, channel, target, delivery_id, code) VALUES ($1, 'sms', $2, $3, $4)
             ON CONFLICT DO NOTHING",
        )
        .bind(app.0)
        .bind(number)
        .bind(last.unwrap_or(Uuid::nil()))
        .bind(CODE)
        .execute(&self.pool)
        .await?;
        Ok(written.rows_affected() > 0)
    }

    /// Lifts the suppression of a number, whatever its cause: the owner has just sent a message from it. Returns true if
    /// the number was suppressed.
    pub async fn opt_in_to_sms(&self, app: AppId, number: &str) -> Result<bool, Error> {
        let lifted =
            sqlx::query("DELETE FROM suppression WHERE app_id = $1 AND channel = 'sms' AND target = $2")
                .bind(app.0)
                .bind(number)
                .execute(&self.pool)
                .await?;
        Ok(lifted.rows_affected() > 0)
    }
}
