//! Status of a request, and of its (recipient, channel) pairs.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::deliveries::parked::ParkedSend;
use crate::{Error, Sends, sends::send};

/// Summary of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSummary {
    pub accepted_at: Timestamp,
    /// Earliest time of delivery; None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub recipients: i32,
    /// Number of recipients that have been planned.
    pub planned: i64,
    pub cancelled: bool,
    /// True if a message of the request is parked.
    pub parked: bool,
    /// Number of (recipient, channel) pairs by channel and status.
    pub counts: BTreeMap<Channel, BTreeMap<Status, i64>>,
}

/// A filter for the (recipient, channel) pairs of a request. A property that is `None` matches all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairFilter<'a> {
    /// Identifier of the recipient.
    pub recipient: Option<&'a str>,
    pub channel: Option<Channel>,
    pub status: Option<Status>,
}

/// Position of a pair in the list of a request's (recipient, channel) pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPosition {
    /// Index of the recipient in the request.
    pub recipient_index: i32,
    pub channel: Channel,
    /// Id of the delivery; the nil UUID for inbox items and skipped channels.
    pub id: Uuid,
}

/// A (recipient, channel) pair of a request: a delivery, an inbox item or a skipped channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStatus {
    pub position: PairPosition,
    /// Identifier of the recipient; None if the recipient was erased.
    pub recipient: Option<String>,
    /// Id of the delivery; None for inbox items and skipped channels.
    pub id: Option<DeliveryId>,
    /// Address, token or endpoint of the delivery; None for inbox items and skipped channels, and if the recipient was
    /// erased.
    pub target: Option<String>,
    /// Provider of the last attempt; None if no provider was called.
    pub provider: Option<String>,
    pub status: Status,
    pub reason: Option<Reason>,
    pub planned_at: Option<Timestamp>,
    /// Time at which the delivery ended; None for inbox items, and for deliveries that have not ended.
    pub settled_at: Option<Timestamp>,
    /// Provider calls, oldest first.
    pub attempts: Vec<AttemptRecord>,
}

/// A provider call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Number of the attempt, from 1.
    pub number: i32,
    /// Time at which the call started.
    pub started_at: Timestamp,
    /// Time at which the answer arrived.
    pub ended_at: Timestamp,
    /// Provider that was called; None if no provider was available.
    pub provider: Option<String>,
    /// Name of the attempt's outcome, such as `sent`.
    pub outcome: String,
    /// Code from the provider.
    pub provider_code: String,
    /// Text from the provider; empty if the recipient was erased.
    pub provider_message: String,
    /// Message id that the provider assigned; None if the provider did not accept the message, or if the recipient was
    /// erased.
    pub provider_id: Option<String>,
    /// Number of segments of an SMS; None for other channels.
    pub segments: Option<i32>,
    /// The provider's receipt for the message, if one has arrived.
    pub receipt: Option<AttemptReceipt>,
}

/// Receipt that a provider sent for a message that it had accepted or may have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReceipt {
    /// `delivered`, or the name of the outcome that the provider reported.
    pub outcome: String,
    /// Code from the provider.
    pub provider_code: String,
    /// Text from the provider; empty if the recipient was erased.
    pub provider_message: String,
    pub received_at: Timestamp,
}

impl From<ParkedSend> for RequestSummary {
    fn from(parked: ParkedSend) -> RequestSummary {
        RequestSummary {
            accepted_at: parked.accepted_at,
            send_at: parked.send_at,
            recipients: i32::try_from(parked.recipients).unwrap_or(i32::MAX),
            planned: 0,
            cancelled: false,
            parked: true,
            counts: BTreeMap::new(),
        }
    }
}

impl Sends<'_> {
    /// Finds a request. Returns None if the request is unknown. A request becomes known when its first chunk is planned or
    /// its send is scheduled or parked.
    pub async fn find_request(self, app: AppId, send: SendId) -> Result<Option<RequestSummary>, Error> {
        let row = sqlx::query!(
            r#"SELECT accepted_at, send_at, recipients, cancelled_at IS NOT NULL AS "cancelled!",
                    (SELECT count(*) FROM planned_recipient WHERE app_id = $1 AND send_id = $2) AS "planned!",
                    EXISTS (SELECT FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)) AS "parked!"
             FROM request WHERE app_id = $1 AND send_id = $2"#,
            app.0,
            send.0,
            &send::streams()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        let Some(row) = row else {
            return Ok(self.0.deliveries().find_parked_send(app, send).await?.map(RequestSummary::from));
        };
        Ok(Some(RequestSummary {
            accepted_at: row.accepted_at.into(),
            send_at: row.send_at.map(Into::into),
            recipients: row.recipients,
            planned: row.planned,
            cancelled: row.cancelled,
            parked: row.parked,
            counts: self.count_deliveries(app, send).await?,
        }))
    }

    async fn count_deliveries(
        self,
        app: AppId,
        send: SendId,
    ) -> Result<BTreeMap<Channel, BTreeMap<Status, i64>>, Error> {
        // The statement scans the rows of one send three times, without joins. The query plan is then good even if
        // PostgreSQL's statistics do not contain a new send yet.
        let rows = sqlx::query!(
            r#"SELECT 'inApp' AS "channel!", status AS "status!", pairs AS "pairs!" FROM (
               SELECT (SELECT count(*) FROM planned_recipient WHERE app_id = $1 AND send_id = $2 AND in_app) AS planned,
                      (SELECT count(*) FROM inbox_item WHERE app_id = $1 AND send_id = $2) AS shown
             ) AS inbox CROSS JOIN LATERAL (VALUES ('delivered', shown), ('queued', planned - shown)) AS v (status, pairs)
             WHERE pairs > 0
             UNION ALL
             SELECT split_part(skip, ':', 1), coalesce($3::jsonb ->> split_part(skip, ':', 2), 'skipped'),
                    count(*)
             FROM planned_recipient CROSS JOIN unnest(skips) AS skip WHERE app_id = $1 AND send_id = $2 GROUP BY 1, 2
             UNION ALL
             SELECT channel, status, count(*) FROM delivery WHERE app_id = $1 AND send_id = $2 GROUP BY channel, status"#,
            app.0,
            send.0,
            planned_statuses() as _
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut counts: BTreeMap<Channel, BTreeMap<Status, i64>> = BTreeMap::new();
        for row in rows {
            *counts.entry(parse(&row.channel)?).or_default().entry(parse(&row.status)?).or_default() +=
                row.pairs;
        }
        Ok(counts)
    }

    /// Returns the time at which the request was accepted. Returns None in the same cases as [`Sends::find_request`].
    pub async fn find_acceptance(self, app: AppId, send: SendId) -> Result<Option<Timestamp>, Error> {
        let accepted_at = sqlx::query_scalar!(
            "SELECT accepted_at FROM request WHERE app_id = $1 AND send_id = $2",
            app.0,
            send.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        match accepted_at {
            Some(accepted_at) => Ok(Some(accepted_at.into())),
            None => {
                Ok(self.0.deliveries().find_parked_send(app, send).await?.map(|parked| parked.accepted_at))
            }
        }
    }

    /// Lists at most `limit` (recipient, channel) pairs of a request after a position, ordered by recipient and channel.
    /// Leaves out personal data of erased recipients, even if this data is still in the database.
    pub async fn list_pairs(
        self,
        app: AppId,
        send: SendId,
        filter: PairFilter<'_>,
        after: Option<PairPosition>,
        limit: i64,
    ) -> Result<Vec<PairStatus>, Error> {
        // The statement reads the rows of each recipient by key, so the cost of a page does not depend on the size of the
        // send.
        let rows = sqlx::query_file!(
            "src/sends/list_pairs.sql",
            app.0,
            send.0,
            planned_statuses() as _,
            after.map_or(0, |after| after.recipient_index),
            filter.recipient,
            filter.channel.map(Channel::as_str),
            filter.status.map(Status::as_str),
            after.map_or("", |after| after.channel.as_str()),
            after.map_or(Uuid::nil(), |after| after.id),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut deliveries = rows
            .into_iter()
            .map(|row| {
                Ok(PairStatus {
                    position: PairPosition {
                        recipient_index: row.recipient_index,
                        channel: parse(&row.channel)?,
                        id: row.id.unwrap_or_default(),
                    },
                    recipient: row.identifier,
                    id: row.id.map(DeliveryId),
                    target: row.target,
                    provider: row.provider,
                    status: parse(&row.status)?,
                    reason: row.reason.as_deref().map(parse).transpose()?,
                    planned_at: row.planned_at.map(Into::into),
                    settled_at: row.settled_at.map(Into::into),
                    attempts: Vec::new(),
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        self.add_attempts(app, &mut deliveries).await?;
        for delivery in deliveries.iter_mut().filter(|delivery| delivery.recipient.is_none()) {
            for attempt in &mut delivery.attempts {
                attempt.provider_message.clear();
                attempt.provider_id = None;
                if let Some(receipt) = &mut attempt.receipt {
                    receipt.provider_message.clear();
                }
            }
        }
        Ok(deliveries)
    }

    async fn add_attempts(self, app: AppId, deliveries: &mut [PairStatus]) -> Result<(), Error> {
        let mut by_id: HashMap<Uuid, &mut Vec<AttemptRecord>> = deliveries
            .iter_mut()
            .filter_map(|delivery| Some((delivery.id?.0, &mut delivery.attempts)))
            .collect();
        if by_id.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = by_id.keys().copied().collect();
        let rows = sqlx::query_as!(
            AttemptRow,
            "SELECT delivery_id, number, started_at, ended_at, provider, outcome, provider_code, provider_message, provider_id,
               segments, receipt, receipt_code, receipt_message, receipt_at
             FROM attempt WHERE app_id = $1 AND delivery_id = ANY($2) ORDER BY delivery_id, number",
            app.0,
            &ids
        )
        .fetch_all(&self.0.pool)
        .await?;
        for row in rows {
            if let Some(attempts) = by_id.get_mut(&row.delivery_id) {
                attempts.push(row.into());
            }
        }
        Ok(())
    }
}

/// Maps reasons to the status that planning sets for them. Omits reasons for which planning sets `skipped`.
fn planned_statuses() -> Json<BTreeMap<Reason, Status>> {
    let statuses = Reason::ALL.iter().map(|reason| (*reason, reason.planned_status()));
    Json(statuses.filter(|(_, status)| *status != Status::Skipped).collect())
}

struct AttemptRow {
    delivery_id: Uuid,
    number: i32,
    started_at: Timestamp,
    ended_at: Timestamp,
    provider: Option<String>,
    outcome: String,
    provider_code: String,
    provider_message: String,
    provider_id: Option<String>,
    segments: Option<i32>,
    receipt: Option<String>,
    receipt_code: Option<String>,
    receipt_message: Option<String>,
    receipt_at: Option<DateTime<Utc>>,
}

impl From<AttemptRow> for AttemptRecord {
    fn from(row: AttemptRow) -> AttemptRecord {
        AttemptRecord {
            number: row.number,
            started_at: row.started_at,
            ended_at: row.ended_at,
            provider: row.provider,
            outcome: row.outcome,
            provider_code: row.provider_code,
            provider_message: row.provider_message,
            provider_id: row.provider_id,
            segments: row.segments,
            receipt: row.receipt.zip(row.receipt_at).map(|(outcome, received_at)| AttemptReceipt {
                outcome,
                provider_code: row.receipt_code.unwrap_or_default(),
                provider_message: row.receipt_message.unwrap_or_default(),
                received_at: received_at.into(),
            }),
        }
    }
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::Unreadable(format!("{error}")))
}
