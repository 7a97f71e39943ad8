use std::collections::{HashMap, HashSet};

use domain::{Outcome, Reason, Status};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::{RecordedStep, Settlement, provider_id};
use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::suppression::{self, DeadTarget};
use crate::deliveries::timer::{self, NewTimer};
use crate::{Deliveries, Error, deliveries::cancellation};

impl Deliveries<'_> {
    /// Like [`settle`](Self::settle), in one transaction that handles every case: retries, parked deliveries, dead targets, erased users
    /// and late answers.
    pub async fn settle_in_full(self, settlements: &[Settlement]) -> Result<Vec<bool>, Error> {
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
                RecordedStep::Retry(timer) if !cancelled.contains(&settlement.token) => Some(timer.clone()),
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
                !is_stopped || matches!(settlement.next, RecordedStep::End(..))
            }
        };
        Ok(settlements.iter().map(follows).collect())
    }

    /// Settles an attempt by ending its delivery (see [`Settlement::status_only`]), without a row for the attempt. Returns true if the
    /// claim was still valid.
    pub async fn settle_status_only(self, settlement: &Settlement) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let bare = [settlement.status_only()];
        let held = update_deliveries(&mut transaction, &bare, &HashSet::new()).await?;
        let made = held.values().map(|held| SettledAttempt { settlement, held: *held });
        requeue_corrected(&mut transaction, &made.collect::<Vec<_>>()).await?;
        transaction.commit().await?;
        Ok(!held.is_empty())
    }
}

struct SettledAttempt<'a> {
    settlement: &'a Settlement,
    held: DeliveryRow,
}

#[derive(Clone, Copy)]
struct DeliveryRow {
    of_erased: bool,
    had_ended: bool,
}

impl DeliveryRow {
    /// Another worker may have published the replaced status as the final outcome. Jobs of erased users are not stored.
    fn must_requeue(self) -> bool {
        self.had_ended && !self.of_erased
    }
}

/// Locks the requests of all settlements that would retry or park a delivery, so that none of them can be cancelled until the transaction
/// ends. Returns the tokens of settlements whose request is already cancelled.
async fn cancelled_repeats(
    connection: &mut PgConnection,
    settlements: &[Settlement],
) -> Result<HashSet<Uuid>, Error> {
    let repeats = settlements.iter().filter(|settlement| !matches!(settlement.next, RecordedStep::End(..)));
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

/// Returns the previous state of each delivery whose claim is still valid, by token.
async fn update_deliveries(
    transaction: &mut Transaction<'static, Postgres>,
    settlements: &[Settlement],
    cancelled: &HashSet<Uuid>,
) -> Result<HashMap<Uuid, DeliveryRow>, Error> {
    let state = |settlement: &Settlement| {
        if cancelled.contains(&settlement.token) {
            (Status::Cancelled, Some(Reason::RequestCancelled))
        } else {
            settlement.next.status()
        }
    };
    columns! { settlement in settlements =>
        app_id = settlement.app.0,
        id = settlement.delivery.0,
        token = settlement.token,
        attempt = integer(settlement.attempt),
        status = state(settlement).0.as_str(),
        reason = state(settlement).1.map(Reason::written),
        message_id = provider_id(&settlement.answer),
    }
    let rows = sqlx::query_file!(
        "src/deliveries/settle.sql",
        &app_id,
        &id,
        &token,
        &attempt,
        &status as &[&str],
        &reason as &[Option<String>],
        &message_id as &[Option<&str>],
        &Status::CONTINUED.map(Status::as_str) as &[&str],
        &Status::CORRECTABLE.map(Status::as_str) as &[&str]
    )
    .fetch_all(&mut **transaction)
    .await?;
    let previous = |of_erased, had_ended| DeliveryRow { of_erased, had_ended };
    Ok(rows.into_iter().map(|row| (row.token, previous(row.of_erased, row.had_ended))).collect())
}

async fn requeue_corrected(connection: &mut PgConnection, made: &[SettledAttempt<'_>]) -> Result<(), Error> {
    let late: Vec<&Settlement> =
        made.iter().filter(|made| made.held.must_requeue()).map(|made| made.settlement).collect();
    if late.is_empty() {
        return Ok(());
    }
    columns! { settlement in late =>
        stream = settlement.job.0.to_string(),
        message = &*settlement.job.1,
        app_id = settlement.app.0,
        send_id = settlement.send_id.map(|id| id.0),
        user_number = settlement.user.0,
    }
    sqlx::query!(
        "INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
         SELECT gen_random_uuid(), now(), late.* FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::uuid[],
           $5::bigint[]) AS late (stream, message, app_id, send_id, user_number)",
        &stream,
        &message as &[&[u8]],
        &app_id,
        &send_id as &[Option<Uuid>],
        &user_number
    )
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
    columns! { SettledAttempt { settlement, held } in made =>
        app_id = settlement.app.0,
        delivery_id = settlement.delivery.0,
        attempt = integer(settlement.attempt),
        started_at = instant(settlement.started_at),
        ended_at = instant(settlement.ended_at),
        provider = settlement.provider.as_deref(),
        outcome = settlement.answer.outcome.name(),
        code = settlement.answer.code.as_str(),
        message = settlement.answer.message.as_str(),
        message_id = provider_id(&settlement.answer),
        of_erased = held.of_erased,
        segments = settlement.answer.segments.map(integer),
        awaits_receipt = settlement.awaits_receipt(),
    }
    sqlx::query!(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, provider_id, segments, awaits_receipt)
         SELECT app_id, delivery_id, number, started_at, ended_at, provider, outcome, code,
           CASE WHEN of_erased THEN '' ELSE message END, CASE WHEN NOT of_erased THEN provider_id END, segments,
           awaits_receipt AND NOT of_erased
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::timestamptz[], $6::text[],
             $7::text[], $8::text[], $9::text[], $10::text[], $11::bool[], $12::int[], $13::bool[])
           AS made (app_id, delivery_id, number, started_at, ended_at, provider, outcome, code, message, provider_id,
             of_erased, segments, awaits_receipt)",
        &app_id,
        &delivery_id,
        &attempt,
        &started_at,
        &ended_at,
        &provider as &[Option<&str>],
        &outcome as &[&str],
        &code as &[&str],
        &message as &[&str],
        &message_id as &[Option<&str>],
        &of_erased,
        &segments as &[Option<i32>],
        &awaits_receipt
    )
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

fn parked_job(settlement: &Settlement) -> Option<NewParked<'_>> {
    let RecordedStep::Park(stream, message) = &settlement.next else { return None };
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

/// None if another attempt follows, because another provider may still reach the target.
fn dead_target(settlement: &Settlement) -> Option<DeadTarget<'_>> {
    let (Outcome::TargetGone(gone), RecordedStep::End(..)) = (&settlement.answer.outcome, &settlement.next)
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
    columns! { settlement in kept =>
        app_id = settlement.app.0,
        delivery_id = settlement.delivery.0,
        user_number = settlement.user.0,
        stream = settlement.job.0.to_string(),
        message = &*settlement.job.1,
    }
    sqlx::query!(
        "INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::bytea[])
         ON CONFLICT (app_id, delivery_id) DO UPDATE SET message = excluded.message, kept_at = now()",
        &app_id,
        &delivery_id,
        &user_number,
        &stream,
        &message as &[&[u8]]
    )
    .execute(connection)
    .await?;
    Ok(())
}
