//! Receipts: what a provider says of a message after it took it, or after nobody knew whether it had.
//!
//! A receipt changes a delivery that is `sent` or `unknown`, and only for its last attempt; it may come often, late and
//! in any order. One that comes before the answer of its call is settled is kept and looked at again.

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
use crate::{Error, Store, deliveries::cancellation};

/// How long a receipt is kept that belongs to no settled attempt.
const EARLY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A final receipt. One that says nothing final (queued, on its way) is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// A new id. What follows from the receipt is published under it.
    pub id: Uuid,
    /// The app.
    pub app: AppId,
    /// What it is about.
    pub about: About,
    /// The classified answer. `Sent` means that the message has arrived; `Unknown` says nothing.
    pub answer: Answer,
    /// When it came.
    pub at: Timestamp,
    /// A random number in 0..1; spreads further attempts.
    pub random: f64,
}

/// What a receipt is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A delivery by its id, and its attempt where the provider knows it; otherwise the last one.
    Delivery(DeliveryId, Option<u32>),
    /// A message by the provider's own id of it.
    Message {
        /// The provider's identifier in the app.
        provider: String,
        /// The id that it gave in its answer.
        id: String,
    },
}

/// What became of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The delivery has gone on to this state.
    Settled(Status),
    /// It says nothing new: it came before, or later than something else.
    Unchanged,
    /// Nothing is known yet that it could be about: it is kept, and looked at again.
    Early,
}

impl Store {
    /// Records receipts in one transaction, each with what follows from it: the delivery's state, what the provider
    /// said beside the attempt, the event that tells of it (a timer of `OUTCOME`), and where it is a temporary failure
    /// the next attempt by the policy. Repeating is safe, and needed after an error.
    ///
    /// As when an attempt is settled, no further attempt follows for a user who was erased or a request that was
    /// cancelled, and of an erased user no words of the provider are kept.
    ///
    /// # Errors
    /// The database failed; then nothing is recorded.
    pub async fn record_receipts(
        &self,
        receipts: &[Receipt],
        policy: &RetryPolicy,
    ) -> Result<Vec<Recorded>, Error> {
        let receipts: Vec<Receipt> = receipts.iter().cloned().map(Receipt::storable).collect();
        let mut transaction = self.begin().await?;
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

    /// Looks again at up to `most` receipts that came early, and forgets those that belong to nothing. Returns how many
    /// of them have been recorded now.
    ///
    /// # Errors
    /// The database failed; then nothing is recorded.
    pub async fn record_early_receipts(
        &self,
        most: u32,
        policy: &RetryPolicy,
        random: f64,
    ) -> Result<usize, Error> {
        let mut transaction = self.begin().await?;
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

    /// Removes the messages of up to `most` attempts whose receipt has not come for this long: none of them can be
    /// repeated from then on. Returns how many.
    ///
    /// # Errors
    /// The database failed.
    pub async fn forget_awaited_receipts(&self, age: Duration, most: u32) -> Result<u64, Error> {
        let forgotten = sqlx::query(
            "DELETE FROM awaiting_receipt WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM awaiting_receipt
               WHERE kept_at < now() - $1::float8 * interval '1 second' ORDER BY kept_at LIMIT $2
               FOR UPDATE SKIP LOCKED
             ))",
        )
        .bind(age.as_secs_f64())
        .bind(i64::from(most))
        .execute(&self.pool)
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

/// Records what can be recorded. Requests are held before deliveries, as by whoever settles or cancels.
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
        // Of two receipts for one delivery the second says nothing new.
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
