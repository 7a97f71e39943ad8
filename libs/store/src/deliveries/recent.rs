//! The latest deliveries and parked messages of an app, for people who look for what failed.

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, StreamName, Timestamp};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::sends::status::parse;
use crate::{Deliveries, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryState {
    pub id: DeliveryId,
    pub channel: Channel,
    pub status: Status,
}

/// A delivery with the answer to its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestAnswer {
    pub id: DeliveryId,
    pub send: SendId,
    pub channel: Channel,
    pub status: Status,
    pub reason: Option<Reason>,
    /// None if the recipient was erased.
    pub recipient: Option<String>,
    pub provider: Option<String>,
    pub code: String,
    /// Empty if the recipient was erased.
    pub words: String,
    pub at: Option<Timestamp>,
}

/// A parked message in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedMessage {
    pub position: ParkedMark,
    pub send: Option<SendId>,
    pub delivery: Option<DeliveryId>,
    /// None if this release does not know the stream.
    pub stream: Option<StreamName>,
    pub cause: String,
    pub parked_at: Timestamp,
}

impl ParkedMessage {
    /// None if the message is not a job.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        match self.stream {
            Some(StreamName::Job(channel, _)) => Some(channel),
            _ => None,
        }
    }
}

/// Position of a message in the list of parked messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedMark {
    /// Microseconds since the Unix epoch, the precision of the column.
    pub micros: i64,
    pub id: Uuid,
}

impl Deliveries<'_> {
    /// Returns the states of the latest `limit` deliveries of sends that were accepted since a time.
    pub async fn recent_states(
        self,
        app: AppId,
        since: Timestamp,
        limit: i64,
    ) -> Result<Vec<DeliveryState>, Error> {
        // No index of deliveries begins with the app, so the sends lead to them.
        let rows = sqlx::query!(
            "SELECT d.id, d.channel, d.status FROM (
                 SELECT send_id FROM request WHERE app_id = $1 AND send_id >= send_id_at($2) ORDER BY send_id DESC LIMIT $3
             ) AS r CROSS JOIN LATERAL (
                 SELECT id, channel, status FROM delivery WHERE app_id = $1 AND send_id = r.send_id LIMIT $3
             ) AS d ORDER BY r.send_id DESC LIMIT $3",
            app.0,
            instant(since),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let (channel, status) = (parse(&row.channel)?, parse(&row.status)?);
                Ok(DeliveryState { id: DeliveryId(row.id), channel, status })
            })
            .collect()
    }

    /// Returns the deliveries with the answers to their last attempts, in no order.
    pub async fn latest_answers(
        self,
        app: AppId,
        deliveries: &[DeliveryId],
    ) -> Result<Vec<LatestAnswer>, Error> {
        let ids: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.0).collect();
        let rows = sqlx::query!(
            r#"SELECT d.id, d.send_id, d.channel, d.status, d.reason || coalesce(':' || d.detail, '') AS reason,
                    CASE WHEN e.user_number IS NULL THEN nullif(p.identifier, '') END AS recipient, d.provider,
                    a.provider_code AS "code?", CASE WHEN e.user_number IS NULL THEN a.provider_message END AS words,
                    coalesce(d.settled_at, a.ended_at) AS at
             FROM unnest($2::uuid[]) AS wanted (id)
             JOIN delivery d ON d.app_id = $1 AND d.id = wanted.id
             LEFT JOIN planned_recipient p ON (p.app_id, p.send_id, p.recipient_index) = ($1, d.send_id, d.recipient_index)
             LEFT JOIN erased e ON (e.app_id, e.user_number) = ($1, d.user_number)
             LEFT JOIN LATERAL (
                 SELECT provider_code, provider_message, ended_at FROM attempt
                 WHERE app_id = $1 AND delivery_id = d.id ORDER BY number DESC LIMIT 1
             ) AS a ON true"#,
            app.0,
            &ids
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(LatestAnswer {
                    id: DeliveryId(row.id),
                    send: SendId(row.send_id),
                    channel: parse(&row.channel)?,
                    status: parse(&row.status)?,
                    reason: row.reason.as_deref().map(Reason::read).transpose()?,
                    recipient: row.recipient,
                    provider: row.provider,
                    code: row.code.unwrap_or_default(),
                    words: row.words.unwrap_or_default(),
                    at: row.at.map(Into::into),
                })
            })
            .collect()
    }

    /// Lists parked messages of an app before a position, latest first.
    pub async fn parked_page(
        self,
        app: AppId,
        before: Option<ParkedMark>,
        limit: i64,
    ) -> Result<Vec<ParkedMessage>, Error> {
        let mark = before.and_then(|mark| Some((DateTime::from_timestamp_micros(mark.micros)?, mark.id)));
        let (before, id) = mark.unwrap_or((DateTime::<Utc>::MAX_UTC, Uuid::max()));
        let rows = sqlx::query!(
            "SELECT id, send_id, delivery_id, stream, cause, parked_at FROM parked
             WHERE app_id = $1 AND (parked_at, id) < ($2, $3) ORDER BY parked_at DESC, id DESC LIMIT $4",
            app.0,
            before,
            id,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let messages = rows.into_iter().map(|row| ParkedMessage {
            position: ParkedMark { micros: row.parked_at.timestamp_micros(), id: row.id },
            send: row.send_id.map(SendId),
            delivery: row.delivery_id.map(DeliveryId),
            stream: row.stream.parse().ok(),
            cause: row.cause,
            parked_at: row.parked_at.into(),
        });
        Ok(messages.collect())
    }
}
