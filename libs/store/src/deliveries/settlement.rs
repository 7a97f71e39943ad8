//! Settling: writing what came of an attempt, by the holder of its claim alone.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use domain::{Answer, AppId, DeliveryId, Outcome, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sabotage::Mutant;
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::database::instant::instant;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::suppression::{self, DeadTarget};
use crate::deliveries::timer::{self, NewTimer};
use crate::{Error, Store, deliveries::cancellation};

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
    pub next: FollowUp,
    /// The job and its stream: it comes again where the answer corrects an end, and is kept for receipts.
    pub job: (StreamName, Bytes),
    /// Whether the provider may still say what became of a message that it took.
    pub receipts: bool,
}

impl Settlement {
    /// The same without any text of the provider's and anything that is kept: for an answer that the database refused.
    #[must_use]
    pub fn reduced(&self) -> Settlement {
        let outcome = match &self.answer.outcome {
            Outcome::Sent { .. } => Outcome::Sent { provider_id: None },
            other => other.clone(),
        };
        let message = "the database refused what the provider said";
        Settlement { answer: Answer::new(outcome, "unstorable", message), receipts: false, ..self.clone() }
    }

    /// The same with nothing but the state that the delivery ends in: where not even a reduced answer can be written.
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

    /// Whether a receipt may follow: of a message that was taken, or may have been.
    fn awaits_receipt(&self) -> bool {
        let is_open = matches!(self.next, FollowUp::End(Status::Sent | Status::Unknown, _));
        is_open && self.receipts
    }
}

/// What follows a settled attempt.
#[derive(Clone, Debug)]
pub enum FollowUp {
    /// Nothing.
    End(Status, Option<Reason>),
    /// Another attempt, by this timer.
    Retry(NewTimer),
    /// Set aside, with the message that would make the next attempt and the stream it belongs to.
    Park(StreamName, Vec<u8>),
}

impl FollowUp {
    /// The state that the delivery is in from then on, and why.
    #[must_use]
    pub fn status(&self) -> (Status, Option<Reason>) {
        match self {
            FollowUp::End(status, reason) => (*status, *reason),
            FollowUp::Retry(_) => (Status::Retrying, None),
            FollowUp::Park(..) => (Status::Parked, Some(Reason::RetriesExhausted)),
        }
    }
}

impl Store {
    /// Settles attempts in one transaction. Says for each whether its claim still held and what it asks for follows;
    /// where the claim did not hold, nothing of it is written. A late answer also holds against the end that a
    /// cancellation or a later claim gave the delivery (cancelled, expired, suppressed): the provider knows better what
    /// became of it. No further attempt follows where the request was cancelled meanwhile; the ledger says so.
    ///
    /// Whoever found the end may tell of it, and acknowledge the job, after a late answer was written and before that is
    /// told. So the job comes again then, by a timer of the same transaction, and what the ledger says now is told.
    ///
    /// Of a user who was erased meanwhile only that the attempt was made, and how it ended, is written: no words or
    /// ids of the provider. No further attempt follows then; the ledger says so.
    ///
    /// # Errors
    /// The database failed; whether it was written is then unknown, and repeating is safe.
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
        let mut transaction = self.begin().await?;
        if sabotage::is(Mutant::UntokenedSettle) {
            usurp(&mut transaction, settlements).await?;
        }
        let cancelled = cancelled_repeats(&mut transaction, settlements).await?;
        let held = update_deliveries(&mut transaction, settlements, &cancelled).await?;
        let made: Vec<SettledAttempt<'_>> = settlements
            .iter()
            .filter_map(|settlement| Some(SettledAttempt { settlement, held: *held.get(&settlement.token)? }))
            .collect();
        insert_attempts(&mut transaction, &made).await?;
        let ours: Vec<&Settlement> =
            made.iter().filter(|made| !made.held.of_erased).map(|made| made.settlement).collect();
        let timers: Vec<NewTimer> = ours
            .iter()
            .filter_map(|settlement| match &settlement.next {
                FollowUp::Retry(timer) if !cancelled.contains(&settlement.token) => Some(timer.clone()),
                _ => None,
            })
            .collect();
        timer::insert(&mut transaction, &timers).await?;
        tell_again(&mut transaction, &made).await?;
        let aside = ours.iter().filter(|ours| !cancelled.contains(&ours.token));
        parked::park(&mut transaction, &aside.filter_map(|aside| parking(aside)).collect::<Vec<_>>()).await?;
        suppression::suppress(
            &mut transaction,
            &ours.iter().filter_map(|ours| dead_target(ours)).collect::<Vec<_>>(),
        )
        .await?;
        keep_for_receipts(&mut transaction, &ours).await?;
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

impl Store {
    /// Settles an attempt by the state of its delivery alone, without a row of the attempt. Says whether its claim
    /// still held.
    ///
    /// # Errors
    /// The database failed.
    pub async fn settle_barely(&self, settlement: &Settlement) -> Result<bool, Error> {
        let mut transaction = self.begin().await?;
        let bare = [settlement.bare()];
        let held = update_deliveries(&mut transaction, &bare, &HashSet::new()).await?;
        let made = held.values().map(|held| SettledAttempt { settlement, held: *held });
        tell_again(&mut transaction, &made.collect::<Vec<_>>()).await?;
        transaction.commit().await?;
        Ok(!held.is_empty())
    }
}

/// An attempt whose claim held.
struct SettledAttempt<'a> {
    settlement: &'a Settlement,
    held: DeliveryRow,
}

/// What a delivery was found like.
#[derive(Clone, Copy)]
struct DeliveryRow {
    /// Whether its user was erased meanwhile.
    of_erased: bool,
    /// Whether it had got an end without this answer.
    had_ended: bool,
}

impl DeliveryRow {
    /// Whether what is written now may be told by nobody. Nothing is kept of an erased user, a job least of all.
    fn is_to_be_told(self) -> bool {
        self.had_ended && !self.of_erased
    }
}

/// The tokens of settlements that ask for a retry of a request that is cancelled, now or once it is redriven. Until the
/// transaction ends, no other request of such a settlement can be.
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

/// Has the claims be ours, whosever they are, and takes back what others settled under them.
#[cold]
async fn usurp(connection: &mut PgConnection, settlements: &[Settlement]) -> Result<(), Error> {
    for settlement in settlements {
        sqlx::query(
            "WITH settled AS (
               DELETE FROM attempt WHERE (app_id, delivery_id, number) = ($1, $2, $4)
             )
             UPDATE delivery SET token = $3, attempt = $4, status = 'sending'
             WHERE (app_id, id) = ($1, $2) AND token IS DISTINCT FROM $3",
        )
        .bind(settlement.app.0)
        .bind(settlement.delivery.0)
        .bind(settlement.token)
        .bind(number(settlement.attempt))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// The tokens that held.
async fn update_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    settlements: &[Settlement],
    cancelled: &HashSet<Uuid>,
) -> Result<HashMap<Uuid, DeliveryRow>, Error> {
    let all = || settlements.iter();
    let state = |settlement: &Settlement| match cancelled.contains(&settlement.token) {
        true => (Status::Cancelled, Some(Reason::RequestCancelled)),
        false => settlement.next.status(),
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

/// Lets the jobs of answers that came after an end come again.
async fn tell_again(connection: &mut PgConnection, made: &[SettledAttempt<'_>]) -> Result<(), Error> {
    let late: Vec<&Settlement> =
        made.iter().filter(|made| made.held.is_to_be_told()).map(|made| made.settlement).collect();
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

/// What is to be parked of a settlement.
fn parking(settlement: &Settlement) -> Option<NewParked<'_>> {
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

/// The target that a settlement ends as dead; another provider may yet reach one that is asked again.
fn dead_target(settlement: &Settlement) -> Option<DeadTarget<'_>> {
    let (Outcome::TargetGone(gone), FollowUp::End(..)) = (&settlement.answer.outcome, &settlement.next)
    else {
        return None;
    };
    let code = &settlement.answer.code;
    Some(DeadTarget { app: settlement.app, delivery: settlement.delivery, code, since: gone.since })
}

async fn keep_for_receipts(connection: &mut PgConnection, ours: &[&Settlement]) -> Result<(), Error> {
    let kept: Vec<_> = ours.iter().filter(|settlement| settlement.awaits_receipt()).collect();
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
