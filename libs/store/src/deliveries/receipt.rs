//! Receipts: a provider's later reports on a message that it accepted or may have accepted.
//!
//! A receipt changes a delivery that is `sent` or `unknown`, and only for its last attempt; it may arrive repeatedly,
//! late and in any order. A receipt that arrives before its attempt is settled is kept and processed again later.

mod change;
mod subject;

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::retry::RetryPolicy;
use domain::{Answer, AppId, DeliveryId, Status, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::{Deliveries, Error, deliveries::cancellation};

/// Time for which a receipt is kept whose attempt is unknown or not settled.
const EARLY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A final receipt. Reports of an intermediate state (queued, in transit) are not receipts.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// A new unique id. If the receipt leads to another attempt, its job is published under this id.
    pub id: Uuid,
    pub app: AppId,
    /// The delivery or message that the receipt reports on.
    pub about: About,
    /// The classified answer. `Sent` means that the message was delivered. `Unknown` does not change the delivery.
    pub answer: Answer,
    /// Time at which the receipt arrived.
    pub at: Timestamp,
    /// A random number from 0 up to 1; the jitter of the next attempt's time.
    pub random: f64,
}

/// The subject of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A delivery by its id, with the number of the attempt if the provider reports it; None means the last attempt.
    Delivery(DeliveryId, Option<u32>),
    /// A message by the id that its provider assigned.
    Message {
        /// Identifier of the provider, unique in the app.
        provider: String,
        /// Message id from the provider's answer.
        id: String,
    },
}

/// Result of recording a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The delivery's status has changed to this one.
    Settled(Status),
    /// No change: the receipt is a repeat, or its attempt is no longer the last one or is not open to receipts.
    Unchanged,
    /// The subject is unknown or its attempt is not settled yet. The receipt is kept and processed again later.
    Early,
}

impl Deliveries<'_> {
    /// Records receipts in one transaction. For each receipt it writes the new state of the delivery, the provider's report
    /// in the row of the attempt, and a timer that publishes the event to `OUTCOME`. After a temporary failure, it also
    /// schedules or parks the next attempt according to the policy. Repeating is safe, and required after an error.
    ///
    /// As in settling an attempt, no further attempt follows for an erased user or a cancelled request, and no text from
    /// the provider is stored for an erased user.
    ///
    /// # Errors
    /// The database failed; nothing is recorded.
    pub async fn record_receipts(
        self,
        receipts: &[Receipt],
        policy: &RetryPolicy,
    ) -> Result<Vec<Recorded>, Error> {
        let receipts: Vec<Receipt> = receipts.iter().cloned().map(Receipt::storable).collect();
        let mut transaction = self.0.begin().await?;
        let recorded = apply(&mut transaction, &receipts, policy).await?;
        let early: Vec<&Receipt> = receipts
            .iter()
            .zip(&recorded)
            .filter(|(_, recorded)| **recorded == Recorded::Early)
            .map(|(receipt, _)| receipt)
            .collect();
        keep_early(&mut transaction, &early).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    /// Processes up to `most` due early receipts again. Removes receipts that are still early 24 hours after they were
    /// stored. Returns the number of receipts that are no longer early.
    ///
    /// # Errors
    /// The database failed; nothing is recorded.
    pub async fn record_early_receipts(
        self,
        most: u32,
        policy: &RetryPolicy,
        random: f64,
    ) -> Result<usize, Error> {
        let mut transaction = self.0.begin().await?;
        let rows = sqlx::query(
            "SELECT * FROM early_receipt WHERE next_look_at <= now() ORDER BY next_look_at LIMIT $1
             FOR UPDATE SKIP LOCKED",
        )
        .bind(i64::from(most))
        .fetch_all(&mut *transaction)
        .await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let receipts: Vec<Receipt> =
            rows.iter().map(|row| read_early(row, random)).collect::<Result<_, _>>()?;
        let recorded = apply(&mut transaction, &receipts, policy).await?;
        let (early, done): (Vec<_>, Vec<_>) =
            receipts.iter().zip(&recorded).partition(|(_, recorded)| **recorded == Recorded::Early);
        let id = |(receipt, _): &(&Receipt, &Recorded)| receipt.id;
        sqlx::query(
            "WITH gone AS (
               DELETE FROM early_receipt WHERE id = ANY($1)
                 OR id = ANY($2) AND created_at < now() - $3::float8 * interval '1 second'
             )
             UPDATE early_receipt SET next_look_at = now() + greatest(now() - created_at, interval '1 second')
             WHERE id = ANY($2) AND created_at >= now() - $3::float8 * interval '1 second'",
        )
        .bind(done.iter().map(id).collect::<Vec<_>>())
        .bind(early.iter().map(id).collect::<Vec<_>>())
        .bind(EARLY_KEPT.as_secs_f64())
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(done.len())
    }

    /// Removes the stored jobs of up to `most` attempts that have awaited a receipt for longer than `age`. A receipt that
    /// arrives later cannot lead to another attempt. Returns the number of removed jobs.
    pub async fn forget_awaited_receipts(self, age: Duration, most: u32) -> Result<u64, Error> {
        let forgotten = sqlx::query(
            "DELETE FROM awaiting_receipt WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM awaiting_receipt
               WHERE kept_at < now() - $1::float8 * interval '1 second' ORDER BY kept_at LIMIT $2
               FOR UPDATE SKIP LOCKED
             ))",
        )
        .bind(age.as_secs_f64())
        .bind(i64::from(most))
        .execute(&self.0.pool)
        .await?;
        Ok(forgotten.rows_affected())
    }
}

impl Receipt {
    fn storable(mut self) -> Receipt {
        if let About::Message { provider, id } = &mut self.about {
            provider.retain(|c| c != '\0');
            id.retain(|c| c != '\0');
        }
        Receipt { answer: self.answer.storable(), ..self }
    }
}

/// Records the receipts that are not early; returns a result for each receipt. Locks requests before deliveries, as
/// settling and cancelling do.
async fn apply(
    connection: &mut PgConnection,
    receipts: &[Receipt],
    policy: &RetryPolicy,
) -> Result<Vec<Recorded>, Error> {
    let named = subject::find(connection, receipts).await?;
    let requests: Vec<_> = named.iter().flatten().map(|named| (named.app, named.send_id)).collect();
    let cancelled = cancellation::cancelled_among(connection, &requests).await?;
    let mut held = subject::hold(connection, &named).await?;
    let mut recorded = Vec::with_capacity(receipts.len());
    let mut changes = Vec::new();
    for (receipt, named) in receipts.iter().zip(&named) {
        let Some(named) = named else {
            recorded.push(Recorded::Early);
            continue;
        };
        // If two receipts name the same delivery, the second does not change it.
        let Some(state) = held.remove(&(named.app, named.delivery)) else {
            recorded.push(Recorded::Unchanged);
            continue;
        };
        if state.is_under_way(named) {
            recorded.push(Recorded::Early);
            held.insert((named.app, named.delivery), state);
            continue;
        }
        let is_cancelled = cancelled.contains(&(named.app, named.send_id));
        match change::decide(receipt, named, state, policy, is_cancelled)? {
            Some(change) => {
                recorded.push(Recorded::Settled(change.status));
                changes.push(change);
            }
            None => recorded.push(Recorded::Unchanged),
        }
    }
    change::write(connection, &changes).await?;
    Ok(recorded)
}

async fn keep_early(connection: &mut PgConnection, early: &[&Receipt]) -> Result<(), Error> {
    if early.is_empty() {
        return Ok(());
    }
    let by_delivery = |receipt: &Receipt| match receipt.about {
        About::Delivery(delivery, attempt) => (Some(delivery.0), attempt.and_then(|n| i32::try_from(n).ok())),
        About::Message { .. } => (None, None),
    };
    fn by_message(receipt: &Receipt) -> Option<(&str, &str)> {
        match &receipt.about {
            About::Delivery(..) => None,
            About::Message { provider, id } => Some((provider, id)),
        }
    }
    sqlx::query(
        "INSERT INTO early_receipt (id, app_id, delivery_id, attempt, provider, provider_id, answer, received_at)
         SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::jsonb[],
           $8::timestamptz[])
         ON CONFLICT DO NOTHING",
    )
    .bind(early.iter().map(|receipt| receipt.id).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| receipt.app.0).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| by_delivery(receipt).0).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| by_delivery(receipt).1).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| by_message(receipt).map(|(provider, _)| provider)).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| by_message(receipt).map(|(_, id)| id)).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| Json(&receipt.answer)).collect::<Vec<_>>())
    .bind(early.iter().map(|receipt| instant(receipt.at)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

fn read_early(row: &PgRow, random: f64) -> Result<Receipt, Error> {
    let about = match row.try_get::<Option<Uuid>, _>("delivery_id")? {
        Some(delivery) => {
            let attempt: Option<i32> = row.try_get("attempt")?;
            About::Delivery(DeliveryId(delivery), attempt.and_then(|number| u32::try_from(number).ok()))
        }
        None => About::Message { provider: row.try_get("provider")?, id: row.try_get("provider_id")? },
    };
    let Json(answer): Json<Answer> = row.try_get("answer")?;
    Ok(Receipt {
        id: row.try_get("id")?,
        app: AppId(row.try_get("app_id")?),
        about,
        answer,
        at: row.try_get::<DateTime<Utc>, _>("received_at")?.into(),
        random,
    })
}
