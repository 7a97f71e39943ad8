use domain::receipt::{Change, NextAttempt, Receipt, ReportedDelivery};
use domain::{Envelope, Reason, Status, StreamName, Timestamp, UserNumber};
use sqlx::PgConnection;

use crate::Error;
use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::suppression::{self, DeadTarget};
use crate::deliveries::timer::{self, NewTimer, Wait};

pub(super) struct Recording<'a> {
    pub(super) receipt: &'a Receipt,
    pub(super) delivery: &'a ReportedDelivery,
    pub(super) change: Change,
}

struct ParkedJob<'a> {
    recording: &'a Recording<'a>,
    stream: StreamName,
    message: Vec<u8>,
}

pub(super) async fn write(connection: &mut PgConnection, recordings: &[Recording<'_>]) -> Result<(), Error> {
    if recordings.is_empty() {
        return Ok(());
    }
    update_deliveries(connection, recordings).await?;
    add_to_attempts(connection, recordings).await?;
    let dead: Vec<_> = recordings.iter().filter_map(Recording::dead_target).collect();
    let suppressed = suppression::suppress(connection, &dead).await?;
    let mut timers = Vec::new();
    let mut jobs = Vec::new();
    for recording in recordings {
        let Recording { receipt, delivery, change } = recording;
        match &change.next {
            Some(NextAttempt { stream, job, due_at: Some(due_at) }) => {
                timers.push(recording.timer(*stream, job, *due_at, Some(delivery.user))?);
            }
            Some(NextAttempt { stream, job, due_at: None }) => {
                jobs.push(ParkedJob { recording, stream: *stream, message: job.encode()? });
            }
            None => {}
        }
        // The timers are written in the transaction of the change, so an event is published only if the change is committed.
        for event in receipt.events(delivery, change, suppressed.contains(&(delivery.app, delivery.id))) {
            timers.push(recording.timer(StreamName::Outcome, &event, receipt.at, None)?);
        }
    }
    timer::insert(connection, &timers).await?;
    parked::park(connection, &jobs.iter().map(ParkedJob::row).collect::<Vec<_>>()).await
}

async fn update_deliveries(connection: &mut PgConnection, recordings: &[Recording<'_>]) -> Result<(), Error> {
    columns! { recording in recordings =>
        app_id = recording.delivery.app.0,
        id = recording.delivery.id.0,
        status = recording.change.status.as_str(),
        reason = recording.change.reason.map(Reason::as_str),
    }
    sqlx::query!(
        "WITH new AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[]) AS new (app_id, id, status, reason)
         ), done AS (
           DELETE FROM awaiting_receipt kept USING new WHERE (kept.app_id, kept.delivery_id) = (new.app_id, new.id)
         )
         UPDATE delivery d SET status = new.status, reason = new.reason, calling = false, lease_until = NULL,
           attempt = d.attempt + (new.status = ANY($5))::int,
           settled_at = CASE WHEN new.status <> 'retrying' THEN now() END
         FROM new WHERE (d.app_id, d.id) = (new.app_id, new.id)",
        &app_id,
        &id,
        &status as &[&str],
        &reason as &[Option<&str>],
        &Status::CONTINUED.map(Status::as_str) as &[&str]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Also creates the row of the attempt if the worker died before it settled the attempt.
async fn add_to_attempts(connection: &mut PgConnection, recordings: &[Recording<'_>]) -> Result<(), Error> {
    columns! { recording in recordings =>
        app_id = recording.delivery.app.0,
        id = recording.delivery.id.0,
        number = integer(recording.delivery.attempt),
        provider = recording.delivery.provider.as_deref(),
        receipt = recording.receipt.outcome_name(),
        code = recording.receipt.answer.code.as_str(),
        message = recording.provider_text(),
        at = instant(recording.receipt.at),
    }
    sqlx::query!(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, receipt, receipt_code, receipt_message, receipt_at)
         SELECT app_id, id, number, at, at, provider, 'unknown', 'lease', '', receipt, code, message, at
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[],
             $8::timestamptz[]) AS new (app_id, id, number, provider, receipt, code, message, at)
         ON CONFLICT (app_id, delivery_id, number) DO UPDATE SET receipt = excluded.receipt,
           receipt_code = excluded.receipt_code, receipt_message = excluded.receipt_message,
           receipt_at = excluded.receipt_at",
        &app_id,
        &id,
        &number,
        &provider as &[Option<&str>],
        &receipt as &[&str],
        &code as &[&str],
        &message as &[&str],
        &at
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl Recording<'_> {
    fn provider_text(&self) -> &str {
        if self.delivery.is_erased { "" } else { &self.receipt.answer.message }
    }

    fn timer(
        &self,
        stream: StreamName,
        envelope: &Envelope,
        due_at: Timestamp,
        user: Option<UserNumber>,
    ) -> Result<NewTimer, Error> {
        let ReportedDelivery { app, send_id, .. } = *self.delivery;
        let message = envelope.encode()?;
        // Only the timer of another attempt names the user.
        let wait = user.map(|_| Wait {
            delivery: self.delivery.id,
            reason: Reason::RetryLater,
            provider: self.delivery.provider.clone(),
            code: Some(self.receipt.answer.code.clone()),
        });
        Ok(NewTimer { id: envelope.id, due_at, stream, message, app, send_id: Some(send_id), user, wait })
    }

    fn dead_target(&self) -> Option<DeadTarget<'_>> {
        self.receipt.kills_target(self.delivery).then_some(DeadTarget {
            app: self.delivery.app,
            delivery: self.delivery.id,
            code: &self.receipt.answer.code,
            since: None,
        })
    }
}

impl ParkedJob<'_> {
    fn row(&self) -> NewParked<'_> {
        let ReportedDelivery { app, send_id, id, user, .. } = *self.recording.delivery;
        NewParked {
            app,
            send_id: Some(send_id),
            delivery: id,
            user,
            stream: self.stream,
            message: &self.message,
            cause: &self.recording.receipt.answer.code,
        }
    }
}
