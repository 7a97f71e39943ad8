//! Settling: writing what came of an attempt, by the holder of its claim alone.

use std::collections::{HashMap, HashSet};

use domain::{Answer, AppId, DeliveryId, Outcome, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::instant::instant;
use crate::timer::{self, NewTimer};
use crate::{Error, Store, cancellation};

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
    /// Settles attempts in one transaction. Says for each whether its claim still held and what it asks for follows;
    /// where the claim did not hold, nothing of it is written. A late answer also holds against the end that a
    /// cancellation or a later claim gave the delivery (cancelled, expired, suppressed): the provider knows better what
    /// became of it. No further attempt follows where the request was cancelled meanwhile; the ledger says so.
    ///
    /// Of a user who was erased meanwhile only that the attempt was made, and how it ended, is written: no words or
    /// ids of the provider. No further attempt follows then; the ledger says so.
    ///
    /// # Errors
    /// The database failed; whether it was written is then unknown, and repeating is safe.
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
        let mut transaction = self.pool.begin().await?;
        let cancelled = cancelled_retries(&mut transaction, settlements).await?;
        let held = update_deliveries(&mut transaction, settlements, &cancelled).await?;
        let made: Vec<Made<'_>> = settlements
            .iter()
            .filter_map(|settlement| Some(Made { settlement, of_erased: *held.get(&settlement.token)? }))
            .collect();
        insert_attempts(&mut transaction, &made).await?;
        let ours: Vec<&Settlement> =
            made.iter().filter(|made| !made.of_erased).map(|made| made.settlement).collect();
        let timers: Vec<NewTimer> = ours
            .iter()
            .filter_map(|settlement| match &settlement.next {
                Next::Retry(timer) if !cancelled.contains(&settlement.token) => Some(timer.clone()),
                _ => None,
            })
            .collect();
        timer::insert(&mut transaction, &timers).await?;
        park(&mut transaction, &ours).await?;
        suppress(&mut transaction, &ours).await?;
        transaction.commit().await?;
        let follows = |settlement: &Settlement| match held.get(&settlement.token) {
            None => false,
            Some(of_erased) => {
                let is_stopped = *of_erased || cancelled.contains(&settlement.token);
                !is_stopped || matches!(settlement.next, Next::End(..))
            }
        };
        Ok(settlements.iter().map(follows).collect())
    }
}

/// An attempt whose claim held.
struct Made<'a> {
    settlement: &'a Settlement,
    /// Whether its user was erased meanwhile.
    of_erased: bool,
}

/// The tokens of settlements that ask for a retry of a request that is cancelled. Until the transaction ends, no other
/// request of a retry can be.
async fn cancelled_retries(
    connection: &mut PgConnection,
    settlements: &[Settlement],
) -> Result<HashSet<Uuid>, Error> {
    let retries = settlements.iter().filter(|settlement| matches!(settlement.next, Next::Retry(_)));
    let retries: Vec<_> = retries
        .filter_map(|settlement| Some((settlement.token, (settlement.app, settlement.send_id?))))
        .collect();
    let requests: Vec<_> = retries.iter().map(|(_, request)| *request).collect();
    let cancelled = cancellation::cancelled_among(connection, &requests).await?;
    Ok(retries
        .into_iter()
        .filter(|(_, request)| cancelled.contains(request))
        .map(|(token, _)| token)
        .collect())
}

/// The tokens that held, each with whether the user was erased.
async fn update_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    settlements: &[Settlement],
    cancelled: &HashSet<Uuid>,
) -> Result<HashMap<Uuid, bool>, Error> {
    let all = || settlements.iter();
    let state = |settlement: &Settlement| match cancelled.contains(&settlement.token) {
        true => (Status::Cancelled, Some(Reason::RequestCancelled)),
        false => settlement.next.status(),
    };
    let rows = sqlx::query(
        "WITH settled AS (
           SELECT d.app_id, d.id, new.token, new.attempt, e.user_number IS NOT NULL AS of_erased,
             e.user_number IS NOT NULL AND new.status IN ('retrying', 'parked') AS stops,
             new.status, new.reason, new.provider_id
           FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[])
             AS new (app_id, id, token, attempt, status, reason, provider_id) USING (app_id, id)
           LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
           ORDER BY d.app_id, d.id FOR UPDATE OF d
         )
         UPDATE delivery d SET status = CASE WHEN settled.stops THEN 'skipped' ELSE settled.status END,
           reason = CASE WHEN settled.stops THEN 'recipient_erased' ELSE settled.reason END,
           provider_id = CASE WHEN NOT settled.of_erased THEN settled.provider_id END,
           lease_until = NULL,
           attempt = d.attempt + (settled.status IN ('retrying', 'parked') AND NOT settled.stops)::int,
           settled_at = CASE WHEN settled.status = 'retrying' AND NOT settled.stops THEN NULL ELSE now() END
         FROM settled
         WHERE (d.app_id, d.id) = (settled.app_id, settled.id) AND d.token = settled.token
           AND d.attempt = settled.attempt AND (d.status = 'sending' OR d.status IN ('cancelled', 'expired', 'skipped')
             AND NOT EXISTS (SELECT FROM attempt made
               WHERE (made.app_id, made.delivery_id, made.number) = (d.app_id, d.id, d.attempt)))
         RETURNING d.token, settled.of_erased",
    )
    .bind(all().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.token).collect::<Vec<_>>())
    .bind(all().map(|settlement| number(settlement.attempt)).collect::<Vec<_>>())
    .bind(all().map(|settlement| state(settlement).0.as_str()).collect::<Vec<_>>())
    .bind(all().map(|settlement| state(settlement).1.map(Reason::as_str)).collect::<Vec<_>>())
    .bind(all().map(|settlement| provider_id(&settlement.answer)).collect::<Vec<_>>())
    .fetch_all(&mut **transaction)
    .await?;
    rows.into_iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn insert_attempts(
    transaction: &mut Transaction<'static, Postgres>,
    made: &[Made<'_>],
) -> Result<(), Error> {
    if made.is_empty() {
        return Ok(());
    }
    let all = || made.iter().map(|made| made.settlement);
    sqlx::query(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, provider_id)
         SELECT app_id, delivery_id, number, started_at, ended_at, provider, outcome, code,
           CASE WHEN of_erased THEN '' ELSE message END, CASE WHEN NOT of_erased THEN provider_id END
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::text[],
             $7::text[], $8::text[], $9::text[], $10::text[], $11::bool[])
           AS made (app_id, delivery_id, number, started_at, ended_at, provider, outcome, code, message, provider_id,
             of_erased)",
    )
    .bind(all().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(all().map(|settlement| number(settlement.attempt)).collect::<Vec<_>>())
    .bind(all().map(|settlement| instant(settlement.started_at)).collect::<Vec<_>>())
    .bind(all().map(|settlement| instant(settlement.ended_at)).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.provider.as_deref()).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.answer.outcome.name()).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.answer.code.as_str()).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.answer.message.as_str()).collect::<Vec<_>>())
    .bind(all().map(|settlement| provider_id(&settlement.answer)).collect::<Vec<_>>())
    .bind(made.iter().map(|made| made.of_erased).collect::<Vec<_>>())
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
