use std::time::Duration;

use domain::AppId;

use crate::{Deliveries, Error};

/// A receipt that has waited for its message in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedReceipt {
    pub app: AppId,
    pub provider: String,
    pub id: String,
}

impl Deliveries<'_> {
    /// Returns once each receipt that has waited for longer than `after`. It still waits, in case the message is recorded later.
    pub async fn missed_receipts(self, after: Duration, most: u32) -> Result<Vec<MissedReceipt>, Error> {
        let rows = sqlx::query!(
            r#"UPDATE early_receipt SET missed_at = now() WHERE id = ANY(ARRAY(
                 SELECT id FROM early_receipt
                 WHERE missed_at IS NULL AND delivery_id IS NULL AND created_at < now() - $1::float8 * interval '1 second'
                 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
               ))
               RETURNING app_id, provider, provider_id"#,
            after.as_secs_f64(),
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        let missed = rows.into_iter().map(|row| MissedReceipt {
            app: AppId(row.app_id),
            provider: row.provider.unwrap_or_default(),
            id: row.provider_id.unwrap_or_default(),
        });
        Ok(missed.collect())
    }

    /// Returns up to `most` ids of a provider's receipts from the last 24 hours that belong to no message.
    pub async fn unmatched_receipts(
        self,
        app: AppId,
        provider: &str,
        most: u32,
    ) -> Result<Vec<String>, Error> {
        let ids = sqlx::query_scalar!(
            r#"SELECT provider_id AS "provider_id!" FROM early_receipt
               WHERE app_id = $1 AND provider = $2 AND delivery_id IS NULL AND provider_id IS NOT NULL
               ORDER BY provider_id LIMIT $3"#,
            app.0,
            provider,
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(ids)
    }
}
