use std::collections::HashMap;

use chrono::{DateTime, Utc};
use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, Timestamp};
use uuid::Uuid;

use super::status::{parse, planned_statuses};
use crate::{Error, Sends};

/// A property that is `None` matches all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairFilter<'a> {
    pub recipient: Option<&'a str>,
    pub channel: Option<Channel>,
    pub status: Option<Status>,
    /// Position of the recipient in the send. It limits what is read, however many recipients the send has.
    pub recipient_index: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPosition {
    pub recipient_index: i32,
    pub channel: Channel,
    /// Nil UUID for inbox items and skipped channels.
    pub id: Uuid,
}

/// A (recipient, channel) pair of a request: a delivery, an inbox item or a skipped channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStatus {
    pub position: PairPosition,
    /// None if the recipient was erased.
    pub recipient: Option<String>,
    /// None for inbox items and skipped channels.
    pub id: Option<DeliveryId>,
    /// None for inbox items and skipped channels, and if the recipient was erased.
    pub target: Option<String>,
    /// Provider of the last attempt; None if no provider was called.
    pub provider: Option<String>,
    /// [`Status::Waiting`] in place of `Queued` and `Retrying` if the delivery waits for a timer.
    pub status: Status,
    pub reason: Option<Reason>,
    /// Set if the status is [`Status::Waiting`].
    pub wait: Option<WaitingPair>,
    pub planned_at: Option<Timestamp>,
    /// None for inbox items, and for deliveries that have not ended.
    pub settled_at: Option<Timestamp>,
    /// Oldest first.
    pub attempts: Vec<AttemptRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPair {
    /// Provider that is to be called; None if it is not chosen yet.
    pub provider: Option<String>,
    /// Code of the answer for which the delivery waits.
    pub code: Option<String>,
    pub next_attempt_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Starts at 1.
    pub number: i32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// None if no provider was available.
    pub provider: Option<String>,
    /// Name of the attempt's outcome, such as `sent`.
    pub outcome: String,
    pub provider_code: String,
    /// Empty if the recipient was erased.
    pub provider_message: String,
    /// None if the provider did not accept the message, or if the recipient was erased.
    pub provider_id: Option<String>,
    /// None for channels other than SMS.
    pub segments: Option<i32>,
    pub receipt: Option<AttemptReceipt>,
}

/// Receipt for a message that the provider had accepted or may have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReceipt {
    /// `delivered`, or the name of the outcome that the provider reported.
    pub outcome: String,
    pub provider_code: String,
    /// Empty if the recipient was erased.
    pub provider_message: String,
    pub received_at: Timestamp,
}

impl Sends<'_> {
    /// Ordered by recipient and channel. Leaves out personal data of erased recipients, even if this data is still in the database.
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
            "src/sends/pairs.sql",
            app.0,
            send.0,
            planned_statuses() as _,
            after.map(|after| after.recipient_index).or(filter.recipient_index).unwrap_or(0),
            filter.recipient,
            filter.channel.map(Channel::as_str),
            filter.status.map(Status::as_str),
            after.map_or("", |after| after.channel.as_str()),
            after.map_or(Uuid::nil(), |after| after.id),
            limit,
            filter.recipient_index.unwrap_or(i32::MAX)
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
                    reason: row.reason.as_deref().map(Reason::read).transpose()?,
                    wait: None,
                    planned_at: row.planned_at.map(Into::into),
                    settled_at: row.settled_at.map(Into::into),
                    attempts: Vec::new(),
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        self.add_attempts(app, &mut deliveries).await?;
        self.add_waits(app, &mut deliveries).await?;
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

    async fn add_waits(self, app: AppId, deliveries: &mut [PairStatus]) -> Result<(), Error> {
        let mut by_id: HashMap<Uuid, &mut PairStatus> = deliveries
            .iter_mut()
            .filter(|delivery| Status::WAITING.contains(&delivery.status))
            .filter_map(|delivery| Some((delivery.id?.0, delivery)))
            .collect();
        if by_id.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = by_id.keys().copied().collect();
        let rows = sqlx::query!(
            r#"SELECT delivery_id AS "delivery_id!", wait_reason, provider, code, due_at FROM timer
               WHERE app_id = $1 AND delivery_id = ANY($2) ORDER BY due_at DESC"#,
            app.0,
            &ids
        )
        .fetch_all(&self.0.pool)
        .await?;
        for row in rows {
            if let Some(delivery) = by_id.get_mut(&row.delivery_id) {
                delivery.status = Status::Waiting;
                delivery.reason = row.wait_reason.as_deref().map(parse).transpose()?;
                let (provider, code) = (row.provider, row.code);
                delivery.wait = Some(WaitingPair { provider, code, next_attempt_at: row.due_at.into() });
            }
        }
        Ok(())
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
