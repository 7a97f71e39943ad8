//! Recording of receipts, in which providers report what became of a message. [`domain::receipt`] decides what a receipt changes.
//!
//! A receipt that arrives before its attempt is settled ("early receipt") is stored and processed again later.

mod change;
mod missed;
mod subject;

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::receipt::{Effect, IdNotation, Receipt, ReceiptSubject, ReportedMessage};
use domain::retry::RetryPolicy;
use domain::{Answer, AppId, DeliveryId, Status};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Deliveries, Error, deliveries::cancellation};

pub use missed::MissedReceipt;

const EARLY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptResult {
    /// The receipt has changed the delivery's status.
    Settled(Status),
    /// The receipt repeats another one, or is about an attempt that receipts can no longer change. If several receipts that are recorded
    /// together change the same delivery, all but the first have no effect.
    Unchanged,
    /// The delivery or message is unknown, or its attempt is not settled yet. The receipt is stored and processed again later.
    Early,
}

impl Deliveries<'_> {
    /// Records receipts in one transaction, with one result per receipt. Sets timers that publish the resulting events to the stream
    /// `OUTCOME`. If a receipt reports a temporary failure, the next attempt is scheduled or parked according to `policy`. Safe to repeat,
    /// and the caller must repeat the call after an error.
    ///
    /// No further attempt follows for an erased user or a cancelled request. For an erased user, no text from the provider is stored.
    pub async fn record_receipts(
        self,
        receipts: &[Receipt],
        policy: &RetryPolicy,
    ) -> Result<Vec<ReceiptResult>, Error> {
        let receipts: Vec<Receipt> = receipts.iter().cloned().map(Receipt::storable).collect();
        let mut transaction = self.0.begin().await?;
        let recorded = apply(&mut transaction, &receipts, policy).await?;
        let early: Vec<&Receipt> = receipts
            .iter()
            .zip(&recorded)
            .filter(|(_, recorded)| **recorded == ReceiptResult::Early)
            .map(|(receipt, _)| receipt)
            .collect();
        keep_early(&mut transaction, &early).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    /// Processes up to `most` due early receipts again, and returns the number of those that are no longer early. A receipt that is still
    /// early 24 hours after it was stored is removed.
    pub async fn record_early_receipts(
        self,
        most: u32,
        policy: &RetryPolicy,
        random: f64,
    ) -> Result<usize, Error> {
        let mut transaction = self.0.begin().await?;
        let rows = sqlx::query_as!(
            EarlyRow,
            r#"SELECT id, app_id, delivery_id, attempt, provider, provider_id, notation, number_ends,
                 answer AS "answer: Json<Answer>", received_at
               FROM early_receipt WHERE next_look_at <= now() ORDER BY next_look_at LIMIT $1 FOR UPDATE SKIP LOCKED"#,
            i64::from(most)
        )
        .fetch_all(&mut *transaction)
        .await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let receipts: Vec<Receipt> = rows.into_iter().map(|row| row.receipt(random)).collect();
        let recorded = apply(&mut transaction, &receipts, policy).await?;
        let (early, done): (Vec<_>, Vec<_>) =
            receipts.iter().zip(&recorded).partition(|(_, recorded)| **recorded == ReceiptResult::Early);
        let id = |(receipt, _): &(&Receipt, &ReceiptResult)| receipt.id;
        sqlx::query!(
            "WITH gone AS (
               DELETE FROM early_receipt WHERE id = ANY($1)
                 OR id = ANY($2) AND created_at < now() - $3::float8 * interval '1 second'
             )
             UPDATE early_receipt SET next_look_at = now() + greatest(now() - created_at, interval '1 second')
             WHERE id = ANY($2) AND created_at >= now() - $3::float8 * interval '1 second'",
            &done.iter().map(id).collect::<Vec<_>>(),
            &early.iter().map(id).collect::<Vec<_>>(),
            EARLY_KEPT.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(done.len())
    }

    /// Removes up to `most` jobs that have waited longer than `age` for a receipt. A later receipt for such an attempt cannot start another
    /// attempt.
    pub async fn forget_awaited_receipts(self, age: Duration, most: u32) -> Result<u64, Error> {
        let forgotten = sqlx::query!(
            "DELETE FROM awaiting_receipt WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM awaiting_receipt
               WHERE kept_at < now() - $1::float8 * interval '1 second' ORDER BY kept_at LIMIT $2
               FOR UPDATE SKIP LOCKED
             ))",
            age.as_secs_f64(),
            i64::from(most)
        )
        .execute(&self.0.pool)
        .await?;
        Ok(forgotten.rows_affected())
    }
}

/// Records all receipts except early ones. If several receipts change the same delivery, only the first is recorded. Locks requests before
/// deliveries, as settling and cancelling do.
async fn apply(
    connection: &mut PgConnection,
    receipts: &[Receipt],
    policy: &RetryPolicy,
) -> Result<Vec<ReceiptResult>, Error> {
    let named = subject::find(connection, receipts).await?;
    let requests: Vec<_> = named.iter().flatten().map(|named| (named.app, named.send_id)).collect();
    let cancelled = cancellation::cancelled_among(connection, &requests).await?;
    let deliveries = subject::hold(connection, &named, &cancelled).await?;
    let mut recorded = Vec::with_capacity(receipts.len());
    let mut changes = Vec::new();
    let mut changed = HashSet::new();
    for (receipt, named) in receipts.iter().zip(&named) {
        let Some(named) = named else {
            recorded.push(ReceiptResult::Early);
            continue;
        };
        let key = (named.app, named.delivery);
        let Some(delivery) = deliveries.get(&key).filter(|_| !changed.contains(&key)) else {
            recorded.push(ReceiptResult::Unchanged);
            continue;
        };
        let effect = receipt.effect(named.attempt, delivery, policy);
        recorded.push(match effect? {
            Effect::Early => ReceiptResult::Early,
            Effect::Unchanged => ReceiptResult::Unchanged,
            Effect::Change(change) => {
                let status = change.status;
                changed.insert(key);
                changes.push(change::Recording { receipt, delivery, change });
                ReceiptResult::Settled(status)
            }
        });
    }
    change::write(connection, &changes).await?;
    Ok(recorded)
}

async fn keep_early(connection: &mut PgConnection, early: &[&Receipt]) -> Result<(), Error> {
    if early.is_empty() {
        return Ok(());
    }
    let by_delivery = |receipt: &Receipt| match receipt.about {
        ReceiptSubject::Delivery(delivery, attempt) => {
            (Some(delivery.0), attempt.and_then(|n| i32::try_from(n).ok()))
        }
        ReceiptSubject::Message { .. } | ReceiptSubject::ReportedMessage(_) => (None, None),
    };
    fn by_message(receipt: &Receipt) -> Option<(&str, &str)> {
        match &receipt.about {
            ReceiptSubject::Delivery(..) => None,
            ReceiptSubject::Message { provider, id }
            | ReceiptSubject::ReportedMessage(ReportedMessage { provider, id, .. }) => Some((provider, id)),
        }
    }
    let reported = |receipt: &Receipt| match &receipt.about {
        ReceiptSubject::ReportedMessage(message) => {
            (Some(message.notation.as_str()), message.number_ends.join(" "))
        }
        _ => (None, String::new()),
    };
    columns! { receipt in early =>
        id = receipt.id,
        app_id = receipt.app.0,
        delivery_id = by_delivery(receipt).0,
        attempt = by_delivery(receipt).1,
        provider = by_message(receipt).map(|(provider, _)| provider),
        provider_id = by_message(receipt).map(|(_, id)| id),
        answer = Json(&receipt.answer),
        received_at = instant(receipt.at),
        notation = reported(receipt).0,
        number_ends = reported(receipt).1,
    }
    sqlx::query!(
        "INSERT INTO early_receipt (id, app_id, delivery_id, attempt, provider, provider_id, answer, received_at, notation,
           number_ends)
         SELECT id, app_id, delivery_id, attempt, provider, provider_id, answer, received_at, notation,
           string_to_array(number_ends, ' ')
         FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::jsonb[], $8::timestamptz[],
           $9::text[], $10::text[])
           AS new (id, app_id, delivery_id, attempt, provider, provider_id, answer, received_at, notation, number_ends)
         ON CONFLICT DO NOTHING",
        &id,
        &app_id,
        &delivery_id as &[Option<Uuid>],
        &attempt as &[Option<i32>],
        &provider as &[Option<&str>],
        &provider_id as &[Option<&str>],
        &answer as &[Json<&Answer>],
        &received_at,
        &notation as &[Option<&str>],
        &number_ends
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// A row names either a delivery, perhaps with the number of an attempt, or a provider and its message id.
struct EarlyRow {
    id: Uuid,
    app_id: i64,
    delivery_id: Option<Uuid>,
    attempt: Option<i32>,
    provider: Option<String>,
    provider_id: Option<String>,
    notation: Option<String>,
    number_ends: Option<Vec<String>>,
    answer: Json<Answer>,
    received_at: DateTime<Utc>,
}

impl EarlyRow {
    fn receipt(self, random: f64) -> Receipt {
        let attempt = self.attempt.and_then(|number| u32::try_from(number).ok());
        let (provider, id) = (self.provider.unwrap_or_default(), self.provider_id.unwrap_or_default());
        let about = match (self.delivery_id, self.notation) {
            (Some(delivery), _) => ReceiptSubject::Delivery(DeliveryId(delivery), attempt),
            (None, None) => ReceiptSubject::Message { provider, id },
            (None, Some(notation)) => ReceiptSubject::ReportedMessage(ReportedMessage {
                provider,
                id,
                notation: IdNotation::of_word(&notation),
                number_ends: self.number_ends.unwrap_or_default(),
            }),
        };
        Receipt {
            id: self.id,
            app: AppId(self.app_id),
            about,
            answer: self.answer.0,
            at: self.received_at.into(),
            random,
        }
    }
}
