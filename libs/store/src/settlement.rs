//! Settling: writing what came of an attempt, by the holder of its claim alone.

use std::collections::HashSet;

use domain::{Answer, AppId, DeliveryId, Outcome, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sqlx::{Postgres, Row, Transaction};
use uuid::Uuid;

use crate::instant::instant;
use crate::timer::{self, NewTimer};
use crate::{Error, Store};

/// What came of an attempt, to be written in one transaction with what follows from it.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The app.
    pub app: AppId,
    /// The send that the delivery is part of.
    pub send_id: Option<SendId>,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its user.
    pub user: UserNumber,
    /// The claim under which the attempt was made.
    pub token: Uuid,
    /// Number of the attempt.
    pub attempt: u32,
    /// The provider called.
    pub provider: Option<String>,
    /// When the call began.
    pub started_at: Timestamp,
    /// When the answer was there.
    pub ended_at: Timestamp,
    /// The classified answer.
    pub answer: Answer,
    /// What follows.
    pub next: Next,
}

/// What follows a settled attempt.
#[derive(Clone, Debug)]
pub enum Next {
    /// Nothing.
    End(Status, Option<Reason>),
    /// Another attempt, by this timer.
    Retry(NewTimer),
    /// Set aside, with the message that would make the next attempt and the stream it belongs to.
    Park(StreamName, Vec<u8>),
}

impl Next {
    /// The state that the delivery is in from then on, and why.
    #[must_use]
    pub fn status(&self) -> (Status, Option<Reason>) {
        match self {
            Next::End(status, reason) => (*status, *reason),
            Next::Retry(_) => (Status::Retrying, None),
            Next::Park(..) => (Status::Parked, Some(Reason::RetriesExhausted)),
        }
    }
}

impl Store {
    /// Settles attempts in one transaction. Says for each whether its claim still held; where it did not, nothing
    /// of it is written. A late answer also holds against the end that a later claim gave the delivery (expired,
    /// suppressed): the provider knows better what became of it.
    ///
    /// # Errors
    /// The database failed; whether it was written is then unknown, and repeating is safe.
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
        let mut transaction = self.pool.begin().await?;
        let held = update_deliveries(&mut transaction, settlements).await?;
        let ours: Vec<&Settlement> =
            settlements.iter().filter(|settlement| held.contains(&settlement.token)).collect();
        insert_attempts(&mut transaction, &ours).await?;
        let timers: Vec<NewTimer> = ours
            .iter()
            .filter_map(|settlement| match &settlement.next {
                Next::Retry(timer) => Some(timer.clone()),
                _ => None,
            })
            .collect();
        timer::insert(&mut transaction, &timers).await?;
        park(&mut transaction, &ours).await?;
        suppress(&mut transaction, &ours).await?;
        transaction.commit().await?;
        Ok(settlements.iter().map(|settlement| held.contains(&settlement.token)).collect())
    }
}

async fn update_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    settlements: &[Settlement],
) -> Result<HashSet<Uuid>, Error> {
    let all = || settlements.iter();
    let rows = sqlx::query(
        "WITH settled AS (
           SELECT d.app_id, d.id, new.token, new.attempt, new.status, new.reason, new.provider_id
           FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[])
             AS new (app_id, id, token, attempt, status, reason, provider_id) USING (app_id, id)
           ORDER BY d.app_id, d.id FOR UPDATE OF d
         )
         UPDATE delivery d SET status = settled.status, reason = settled.reason, provider_id = settled.provider_id,
           lease_until = NULL,
           attempt = d.attempt + (settled.status IN ('retrying', 'parked'))::int,
           settled_at = CASE WHEN settled.status = 'retrying' THEN NULL ELSE now() END
         FROM settled
         WHERE (d.app_id, d.id) = (settled.app_id, settled.id) AND d.token = settled.token
           AND d.attempt = settled.attempt AND (d.status = 'sending' OR d.status IN ('expired', 'skipped')
             AND NOT EXISTS (SELECT FROM attempt made
               WHERE (made.app_id, made.delivery_id, made.number) = (d.app_id, d.id, d.attempt)))
         RETURNING d.token",
    )
    .bind(all().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.token).collect::<Vec<_>>())
    .bind(all().map(|settlement| number(settlement.attempt)).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.next.status().0.as_str()).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.next.status().1.map(Reason::as_str)).collect::<Vec<_>>())
    .bind(all().map(|settlement| provider_id(&settlement.answer)).collect::<Vec<_>>())
    .fetch_all(&mut **transaction)
    .await?;
    rows.into_iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn insert_attempts(
    transaction: &mut Transaction<'static, Postgres>,
    ours: &[&Settlement],
) -> Result<(), Error> {
    if ours.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, provider_id)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::text[],
           $7::text[], $8::text[], $9::text[], $10::text[])",
    )
    .bind(ours.iter().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| number(settlement.attempt)).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| instant(settlement.started_at)).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| instant(settlement.ended_at)).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| settlement.provider.as_deref()).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| settlement.answer.outcome.name()).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| settlement.answer.code.as_str()).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| settlement.answer.message.as_str()).collect::<Vec<_>>())
    .bind(ours.iter().map(|settlement| provider_id(&settlement.answer)).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn park(transaction: &mut Transaction<'static, Postgres>, ours: &[&Settlement]) -> Result<(), Error> {
    let parked: Vec<_> = ours
        .iter()
        .filter_map(|settlement| match &settlement.next {
            Next::Park(stream, message) => Some((settlement, stream, message)),
            _ => None,
        })
        .collect();
    if parked.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
         SELECT gen_random_uuid(), * FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[],
           $6::bytea[], $7::text[])",
    )
    .bind(parked.iter().map(|(settlement, ..)| settlement.app.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|(settlement, ..)| settlement.send_id.map(|id| id.0)).collect::<Vec<_>>())
    .bind(parked.iter().map(|(settlement, ..)| settlement.delivery.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|(settlement, ..)| settlement.user.0).collect::<Vec<_>>())
    .bind(parked.iter().map(|(_, stream, _)| stream.to_string()).collect::<Vec<_>>())
    .bind(parked.iter().map(|(.., message)| message.as_slice()).collect::<Vec<_>>())
    .bind(parked.iter().map(|(settlement, ..)| settlement.answer.code.as_str()).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn suppress(
    transaction: &mut Transaction<'static, Postgres>,
    ours: &[&Settlement],
) -> Result<(), Error> {
    let dead: Vec<_> =
        ours.iter().filter(|settlement| settlement.answer.outcome == Outcome::TargetGone).collect();
    if dead.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT d.app_id, d.channel, d.target, d.id, dead.code
         FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS dead (app_id, id, code)
         JOIN delivery d USING (app_id, id) ORDER BY d.app_id, d.channel, d.target
         ON CONFLICT DO NOTHING",
    )
    .bind(dead.iter().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(dead.iter().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(dead.iter().map(|settlement| settlement.answer.code.as_str()).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

fn provider_id(answer: &Answer) -> Option<&str> {
    match &answer.outcome {
        Outcome::Sent { provider_id } => provider_id.as_deref(),
        _ => None,
    }
}

fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
