use chrono::{DateTime, Utc};
use domain::{AppId, Channel, DeliveryId, Timestamp, UserNumber};
use uuid::Uuid;

use crate::sends::status::parse;
use crate::{Deliveries, Error};

/// A suppressed target of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedTarget {
    pub channel: Channel,
    pub target: String,
    /// Delivery that led to the suppression.
    pub delivery: DeliveryId,
    /// Code with which the provider reported the target as dead.
    pub code: String,
    pub at: Timestamp,
}

struct SuppressedRow {
    channel: String,
    target: String,
    delivery_id: Uuid,
    code: String,
    created_at: DateTime<Utc>,
}

impl TryFrom<SuppressedRow> for SuppressedTarget {
    type Error = Error;

    fn try_from(row: SuppressedRow) -> Result<SuppressedTarget, Error> {
        Ok(SuppressedTarget {
            channel: parse(&row.channel)?,
            target: row.target,
            delivery: DeliveryId(row.delivery_id),
            code: row.code,
            at: row.created_at.into(),
        })
    }
}

impl Deliveries<'_> {
    /// Returns the suppressed ones of the targets. An email address is suppressed in all spellings of its mailbox.
    pub async fn suppressions_of(
        self,
        app: AppId,
        targets: &[(Channel, String)],
    ) -> Result<Vec<SuppressedTarget>, Error> {
        let channels: Vec<String> = targets.iter().map(|(channel, _)| channel.to_string()).collect();
        let targets: Vec<String> = targets.iter().map(|(_, target)| target.clone()).collect();
        let rows = sqlx::query_as!(
            SuppressedRow,
            r#"SELECT wanted.channel AS "channel!", wanted.target AS "target!", s.delivery_id AS "delivery_id!",
                 s.code AS "code!", s.created_at AS "created_at!"
             FROM unnest($2::text[], $3::text[]) AS wanted (channel, target) CROSS JOIN LATERAL (
               SELECT delivery_id, code, created_at FROM suppression s
               WHERE s.app_id = $1 AND s.channel = wanted.channel AND s.target = wanted.target
               UNION
               SELECT delivery_id, code, created_at FROM suppression s
               WHERE s.app_id = $1 AND mailbox_key(s.channel, s.target) = mailbox_key(wanted.channel, wanted.target)
               ORDER BY created_at LIMIT 1
             ) AS s"#,
            app.0,
            &channels,
            &targets
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(SuppressedTarget::try_from).collect()
    }

    /// Returns the latest `limit` push tokens and browser subscriptions that a suppression has removed from a user.
    pub async fn targets_removed_from(
        self,
        app: AppId,
        user: UserNumber,
        limit: i64,
    ) -> Result<Vec<SuppressedTarget>, Error> {
        // The number of a user is unique in all apps. The index of the app must not be used, because it finds all suppressions of the app.
        let rows = sqlx::query_as!(
            SuppressedRow,
            r#"WITH found AS MATERIALIZED (
               SELECT app_id, channel, target, delivery_id, code, created_at FROM suppression
               WHERE pruned @> jsonb_build_object('users', jsonb_build_array(jsonb_build_object('number', $2::bigint)))
                 OR pruned @> jsonb_build_object('subscription', jsonb_build_object('user', $2::bigint))
             )
             SELECT channel AS "channel!", target AS "target!", delivery_id AS "delivery_id!", code AS "code!",
               created_at AS "created_at!"
             FROM found WHERE app_id = $1 ORDER BY created_at DESC LIMIT $3"#,
            app.0,
            user.0,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(SuppressedTarget::try_from).collect()
    }

    /// Returns the suppression that a delivery led to.
    pub async fn suppression_by(
        self,
        app: AppId,
        channel: Channel,
        delivery: DeliveryId,
    ) -> Result<Option<SuppressedTarget>, Error> {
        let row = sqlx::query!(
            "SELECT target, code, created_at FROM suppression WHERE app_id = $1 AND channel = $2 AND delivery_id = $3 LIMIT 1",
            app.0,
            channel.as_str(),
            delivery.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| SuppressedTarget {
            channel,
            target: row.target,
            delivery,
            code: row.code,
            at: row.created_at.into(),
        }))
    }
}
