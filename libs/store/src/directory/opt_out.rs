//! What recipients of short messages say of them: no more, or again.

use domain::AppId;
use uuid::Uuid;

use crate::{Error, Store};

/// The code of a suppression that the recipient asked for.
const CODE: &str = "STOP";

impl Store {
    /// Suppresses a number whose owner wants no more messages. The suppression goes with the last delivery to the
    /// number, as those do that a provider asks for. Says whether that is new.
    ///
    /// # Errors
    /// The database failed.
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

    /// Lifts the suppression of a number, whatever led to it: its owner has just written from it. Says whether there
    /// was one.
    ///
    /// # Errors
    /// The database failed.
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
