use domain::{AppId, Channel, DeliveryId, Timestamp};

use crate::{Deliveries, Error};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppression {
    pub app: AppId,
    pub app_name: String,
    pub channel: Channel,
    /// Full address, token or endpoint.
    pub target: String,
    /// Delivery that led to the suppression.
    pub delivery: DeliveryId,
    /// Code of the provider's answer or receipt.
    pub code: String,
    pub at: Timestamp,
}

/// A property that is `None` matches all suppressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuppressionFilter {
    pub app: Option<AppId>,
    pub channel: Option<Channel>,
}

impl Deliveries<'_> {
    /// Latest first.
    pub async fn list_suppressions(
        self,
        filter: SuppressionFilter,
        limit: i64,
    ) -> Result<Vec<Suppression>, Error> {
        let rows = sqlx::query!(
            "SELECT s.app_id, app.name, s.channel, s.target, s.delivery_id, s.code, s.created_at
             FROM suppression s JOIN app ON app.id = s.app_id
             WHERE ($1::bigint IS NULL OR s.app_id = $1) AND ($2::text IS NULL OR s.channel = $2)
             ORDER BY s.created_at DESC, s.app_id, s.channel, s.target LIMIT $3",
            filter.app.map(|app| app.0),
            filter.channel.map(Channel::as_str),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(Suppression {
                    app: AppId(row.app_id),
                    app_name: row.name,
                    channel: row.channel.parse()?,
                    target: row.target,
                    delivery: DeliveryId(row.delivery_id),
                    code: row.code,
                    at: row.created_at.into(),
                })
            })
            .collect()
    }
}
