//! Settling: recording the outcome of an attempt. Only the worker with the claim can settle it.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use domain::{Answer, AppId, DeliveryId, Outcome, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::suppression::{self, DeadTarget};
use crate::deliveries::timer::{self, NewTimer};
use crate::{Deliveries, Error, deliveries::cancellation};

/// The outcome of an attempt and its follow-up, to be recorded in one transaction.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub app: AppId,
    pub send_id: Option<SendId>,
    pub delivery: DeliveryId,
    pub user: UserNumber,
    /// Token of the claim under which the attempt was made.
    pub token: Uuid,
    pub attempt: u32,
    /// The provider that was called; None if no provider was called.
    pub provider: Option<String>,
    /// Time at which the provider call started.
    pub started_at: Timestamp,
    /// Time at which the provider's answer arrived.
    pub ended_at: Timestamp,
    /// The classified answer.
    pub answer: Answer,
    pub next: FollowUp,
    /// Stream and encoded job of the attempt. The job is published again if the answer arrives after the delivery had
    /// ended. It is stored if a receipt may follow.
    pub job: (StreamName, Bytes),
    /// True if the provider may send a receipt for a message that it accepted.
    pub receipts: bool,
}

impl Settlement {
    /// Returns a copy without the provider's text and message id, for an answer that PostgreSQL rejected. The job is not
    /// stored for receipts.
    #[must_use]
    pub fn reduced(&self) -> Settlement {
        let outcome = match &self.answer.outcome {
            Outcome::Sent { .. } => Outcome::Sent { provider_id: None },
            other => other.clone(),
        };
        let message = "PostgreSQL rejected the provider's answer";
        Settlement { answer: Answer::new(outcome, "unstorable", message), receipts: false, ..self.clone() }
    }

    /// Returns a copy that only ends the delivery, for a settlement that PostgreSQL rejects even with a reduced answer. A
    /// retry or parking becomes `failed`.
    #[must_use]
    pub fn bare(&self) -> Settlement {
        let next = match &self.next {
            FollowUp::End(status, reason) => FollowUp::End(*status, *reason),
            FollowUp::Retry(_) | FollowUp::Park(..) => {
                FollowUp::End(Status::Failed, Some(Reason::RetriesExhausted))
            }
        };
        Settlement { next, ..self.reduced() }
    }

    /// Returns true if a receipt may follow: the provider sends receipts, and it accepted or may have accepted the message.
    fn awaits_receipt(&self) -> bool {
        let is_open = matches!(self.next, FollowUp::End(Status::Sent | Status::Unknown, _));
        is_open && self.receipts
    }
}

/// The next step after a settled attempt.
#[derive(Clone, Debug)]
pub enum FollowUp {
    /// No further step: the delivery has ended with this status.
    End(Status, Option<Reason>),
    /// Another attempt, started by this timer.
    Retry(NewTimer),
    /// The delivery is parked: retries are exhausted. Contains the stream and the message that a redrive would publish.
    Park(StreamName, Vec<u8>),
}

impl FollowUp {
    /// Status of the delivery after this step, and the reason for the status.
    #[must_use]
    pub fn status(&self) -> (Status, Option<Reason>) {
        match self {
            FollowUp::End(status, reason) => (*status, *reason),
            FollowUp::Retry(_) => (Status::Retrying, None),
            FollowUp::Park(..) => (Status::Parked, Some(Reason::RetriesExhausted)),
        }
    }
}

impl Deliveries<'_> {
    /// Settles attempts in one transaction. Returns true for each whose claim was still valid and whose follow-up takes
    /// place. If the claim was not valid, nothing is written for this attempt. If a cancellation or a later claim has ended
    /// the delivery meanwhile (cancelled, expired, suppressed), a late answer replaces that status, because the provider's
    /// answer is more accurate. If the request has been cancelled, no further attempt follows and the delivery becomes
    /// `cancelled`.
    ///
    /// A worker may have read the replaced status, and may publish it and acknowledge the job after the late answer was
    /// written. A timer in the same transaction therefore publishes the job again, so that a worker then publishes the
    /// current state of the ledger.
    ///
    /// For an erased user, only the attempt and its outcome are written, without text or ids from the provider. No
    /// further attempt follows; the delivery becomes `skipped`.
    ///
    /// # Errors
    /// The database failed. The settlements may have been written nevertheless; repeating is safe.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
        let mut transaction = self.0.begin().await?;
        let cancelled = cancelled_repeats(&mut transaction, settlements).await?;
        let held = update_deliveries(&mut transaction, settlements, &cancelled).await?;
        let made: Vec<SettledAttempt<'_>> = settlements
            .iter()
            .filter_map(|settlement| Some(SettledAttempt { settlement, held: *held.get(&settlement.token)? }))
            .collect();
        insert_attempts(&mut transaction, &made).await?;
        let unerased: Vec<&Settlement> =
            made.iter().filter(|made| !made.held.of_erased).map(|made| made.settlement).collect();
        let timers: Vec<NewTimer> = unerased
            .iter()
            .filter_map(|settlement| match &settlement.next {
                FollowUp::Retry(timer) if !cancelled.contains(&settlement.token) => Some(timer.clone()),
                _ => None,
            })
            .collect();
        timer::insert(&mut transaction, &timers).await?;
        requeue_corrected(&mut transaction, &made).await?;
        let continued = unerased.iter().filter(|settlement| !cancelled.contains(&settlement.token));
        let parked: Vec<_> = continued.filter_map(|settlement| parked_job(settlement)).collect();
        parked::park(&mut transaction, &parked).await?;
        let dead: Vec<_> = unerased.iter().filter_map(|settlement| dead_target(settlement)).collect();
        suppression::suppress(&mut transaction, &dead).await?;
        keep_for_receipts(&mut transaction, &unerased).await?;
        transaction.commit().await?;
        let follows = |settlement: &Settlement| match held.get(&settlement.token) {
            None => false,
            Some(held) => {
                let is_stopped = held.of_erased || cancelled.contains(&settlement.token);
                !is_stopped || matches!(settlement.next, FollowUp::End(..))
            }
        };
        Ok(settlements.iter().map(follows).collect())
    }
}

impl Deliveries<'_> {
    /// Settles an attempt by writing only the state of its delivery (see [`Settlement::bare`]), without a row for the
    /// attempt. Returns true if the claim was still valid.
    pub async fn settle_barely(self, settlement: &Settlement) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let bare = [settlement.bare()];
        let held = update_deliveries(&mut transaction, &bare, &HashSet::new()).await?;
        let made = held.values().map(|held| SettledAttempt { settlement, held: *held });
        requeue_corrected(&mut transaction, &made.collect::<Vec<_>>()).await?;
        transaction.commit().await?;
        Ok(!held.is_empty())
    }
}

/// A settled attempt, whose claim was valid.
struct SettledAttempt<'a> {
    settlement: &'a Settlement,
    held: DeliveryRow,
}

/// State of a delivery before it is settled.
#[derive(Clone, Copy)]
struct DeliveryRow {
    /// True if the delivery's user has been erased.
    of_erased: bool,
    /// True if the delivery had already ended before this answer.
    had_ended: bool,
}

impl DeliveryRow {
    /// Returns true if the job must be queued again because this outcome might otherwise never be published. Returns false
    /// for erased users, whose jobs are not stored.
    fn must_requeue(self) -> bool {
        self.had_ended && !self.of_erased
    }
}

/// Returns the tokens of settlements whose follow-up is a retry or parking but whose request is cancelled. Locks the
/// requests of all settlements with such a follow-up, so that none can be cancelled until the transaction ends.
async fn cancelled_repeats(
    connection: &mut PgConnection,
    settlements: &[Settlement],
) -> Result<HashSet<Uuid>, Error> {
    let repeats = settlements.iter().filter(|settlement| !matches!(settlement.next, FollowUp::End(..)));
    let repeats: Vec<_> = repeats
        .filter_map(|settlement| Some((settlement.token, (settlement.app, settlement.send_id?))))
        .collect();
    let requests: Vec<_> = repeats.iter().map(|(_, request)| *request).collect();
    let cancelled = cancellation::cancelled_among(connection, &requests).await?;
    Ok(repeats
        .into_iter()
        .filter(|(_, request)| cancelled.contains(request))
        .map(|(token, _)| token)
        .collect())
}

/// Updates the deliveries whose claims are still valid. Returns the previous state of each by the token of its claim.
async fn update_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    settlements: &[Settlement],
    cancelled: &HashSet<Uuid>,
) -> Result<HashMap<Uuid, DeliveryRow>, Error> {
    let all = || settlements.iter();
    let state = |settlement: &Settlement| {
        if cancelled.contains(&settlement.token) {
            (Status::Cancelled, Some(Reason::RequestCancelled))
        } else {
            settlement.next.status()
        }
    };
    let rows = sqlx::query(
        "WITH settled AS (
           SELECT d.app_id, d.id, new.token, new.attempt, e.user_number IS NOT NULL AS of_erased,
             d.status <> 'sending' AS had_ended,
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
           lease_until = NULL, calling = false,
           attempt = d.attempt + (settled.status IN ('retrying', 'parked') AND NOT settled.stops)::int,
           settled_at = CASE WHEN settled.status = 'retrying' AND NOT settled.stops THEN NULL ELSE now() END
         FROM settled
         WHERE (d.app_id, d.id) = (settled.app_id, settled.id) AND d.token = settled.token
           AND d.attempt = settled.attempt AND (d.status = 'sending' OR d.status = 'unknown' AND d.calling
             OR d.status IN ('cancelled', 'expired', 'skipped') AND NOT EXISTS (SELECT FROM attempt made
               WHERE (made.app_id, made.delivery_id, made.number) = (d.app_id, d.id, d.attempt)))
         RETURNING d.token, settled.of_erased, settled.had_ended",
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
    rows.into_iter()
        .map(|row| {
            Ok((row.try_get(0)?, DeliveryRow { of_erased: row.try_get(1)?, had_ended: row.try_get(2)? }))
        })
        .collect()
}

/// Queues the jobs again whose answers arrived after their delivery had ended.
async fn requeue_corrected(connection: &mut PgConnection, made: &[SettledAttempt<'_>]) -> Result<(), Error> {
    let late: Vec<&Settlement> =
        made.iter().filter(|made| made.held.must_requeue()).map(|made| made.settlement).collect();
    if late.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
         SELECT gen_random_uuid(), now(), late.* FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::uuid[],
           $5::bigint[]) AS late (stream, message, app_id, send_id, user_number)",
    )
    .bind(late.iter().map(|settlement| settlement.job.0.to_string()).collect::<Vec<_>>())
    .bind(late.iter().map(|settlement| &*settlement.job.1).collect::<Vec<_>>())
    .bind(late.iter().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(late.iter().map(|settlement| settlement.send_id.map(|id| id.0)).collect::<Vec<_>>())
    .bind(late.iter().map(|settlement| settlement.user.0).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert_attempts(
    transaction: &mut Transaction<'static, Postgres>,
    made: &[SettledAttempt<'_>],
) -> Result<(), Error> {
    if made.is_empty() {
        return Ok(());
    }
    let all = || made.iter().map(|made| made.settlement);
    sqlx::query(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, provider_id, segments, awaits_receipt)
         SELECT app_id, delivery_id, number, started_at, ended_at, provider, outcome, code,
           CASE WHEN of_erased THEN '' ELSE message END, CASE WHEN NOT of_erased THEN provider_id END, segments,
           awaits_receipt AND NOT of_erased
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::text[],
             $7::text[], $8::text[], $9::text[], $10::text[], $11::bool[], $12::int[], $13::bool[])
           AS made (app_id, delivery_id, number, started_at, ended_at, provider, outcome, code, message, provider_id,
             of_erased, segments, awaits_receipt)",
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
    .bind(made.iter().map(|made| made.held.of_erased).collect::<Vec<_>>())
    .bind(all().map(|settlement| settlement.answer.segments.map(number)).collect::<Vec<_>>())
    .bind(all().map(Settlement::awaits_receipt).collect::<Vec<_>>())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

fn parked_job(settlement: &Settlement) -> Option<NewParked<'_>> {
    let FollowUp::Park(stream, message) = &settlement.next else { return None };
    Some(NewParked {
        app: settlement.app,
        send_id: settlement.send_id,
        delivery: settlement.delivery,
        user: settlement.user,
        stream: *stream,
        message,
        cause: &settlement.answer.code,
    })
}

/// Returns the target if the provider reported it as dead and the delivery has ended. None if another attempt follows:
/// another provider may still reach the target.
fn dead_target(settlement: &Settlement) -> Option<DeadTarget<'_>> {
    let (Outcome::TargetGone(gone), FollowUp::End(..)) = (&settlement.answer.outcome, &settlement.next)
    else {
        return None;
    };
    let code = &settlement.answer.code;
    Some(DeadTarget { app: settlement.app, delivery: settlement.delivery, code, since: gone.since })
}

async fn keep_for_receipts(connection: &mut PgConnection, settlements: &[&Settlement]) -> Result<(), Error> {
    let kept: Vec<_> = settlements.iter().filter(|settlement| settlement.awaits_receipt()).collect();
    if kept.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::bytea[])
         ON CONFLICT (app_id, delivery_id) DO UPDATE SET message = excluded.message, kept_at = now()",
    )
    .bind(kept.iter().map(|settlement| settlement.app.0).collect::<Vec<_>>())
    .bind(kept.iter().map(|settlement| settlement.delivery.0).collect::<Vec<_>>())
    .bind(kept.iter().map(|settlement| settlement.user.0).collect::<Vec<_>>())
    .bind(kept.iter().map(|settlement| settlement.job.0.to_string()).collect::<Vec<_>>())
    .bind(kept.iter().map(|settlement| &*settlement.job.1).collect::<Vec<_>>())
    .execute(connection)
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
