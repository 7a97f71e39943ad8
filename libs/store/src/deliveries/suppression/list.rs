use std::fmt::{self, Display, Formatter};

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, DeliveryId, Timestamp};
use uuid::Uuid;

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
    pub position: SuppressionPosition,
}

/// Position in the list of suppressions: the time of one and its delivery, never its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuppressionPosition {
    at: DateTime<Utc>,
    delivery: Uuid,
}

impl SuppressionPosition {
    /// Reads the text of a position. Returns None if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<SuppressionPosition> {
        let (micros, delivery) = text.split_once('_')?;
        let at = DateTime::from_timestamp_micros(micros.parse().ok()?)?;
        Some(SuppressionPosition { at, delivery: delivery.parse().ok()? })
    }
}

impl Display for SuppressionPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.at.timestamp_micros(), self.delivery)
    }
}

/// A property that is `None` matches all suppressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuppressionFilter {
    pub app: Option<AppId>,
    pub channel: Option<Channel>,
    /// Only suppressions behind this position.
    pub after: Option<SuppressionPosition>,
}

impl Deliveries<'_> {
    /// Latest first.
    pub async fn list_suppressions(
        self,
        filter: SuppressionFilter,
        limit: i64,
    ) -> Result<Vec<Suppression>, Error> {
        let (at, delivery) = filter
            .after
            .map_or((DateTime::<Utc>::MAX_UTC, Uuid::max()), |position| (position.at, position.delivery));
        let rows = sqlx::query!(
            "SELECT s.app_id, app.name, s.channel, s.target, s.delivery_id, s.code, s.created_at
             FROM suppression s JOIN app ON app.id = s.app_id
             WHERE ($1::bigint IS NULL OR s.app_id = $1) AND ($2::text IS NULL OR s.channel = $2)
               AND (s.created_at, s.delivery_id) < ($3, $4)
             ORDER BY s.created_at DESC, s.delivery_id DESC LIMIT $5",
            filter.app.map(|app| app.0),
            filter.channel.map(Channel::as_str),
            at,
            delivery,
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
                    position: SuppressionPosition { at: row.created_at, delivery: row.delivery_id },
                })
            })
            .collect()
    }
}
