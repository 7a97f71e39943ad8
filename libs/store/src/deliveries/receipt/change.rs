//! Decides which change a receipt makes to its delivery, and writes these changes.

use domain::event::{DeliverySettled, TargetSuppressed};
use domain::retry::{FinishedAttempt, RetryDecision, RetryPolicy};
use domain::{Envelope, Event, Outcome, Reason, Status, StreamName};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Error;
use crate::database::instant::instant;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::receipt::Receipt;
use crate::deliveries::receipt::subject::{NamedAttempt, State};
use crate::deliveries::suppression::{self, DeadTarget};
use crate::deliveries::timer::{self, NewTimer};

pub(super) struct Change<'a> {
    receipt: &'a Receipt,
    named: &'a NamedAttempt,
    state: State,
    pub(super) status: Status,
    reason: Option<Reason>,
    /// Stream, encoded job and due time of the next attempt. Without a due time, the job is parked.
    next: Option<(StreamName, Vec<u8>, Option<domain::Timestamp>)>,
}

/// Decides which change a receipt makes; None if the delivery does not change.
pub(super) fn decide<'a>(
    receipt: &'a Receipt,
    named: &'a NamedAttempt,
    state: State,
    policy: &RetryPolicy,
    is_cancelled: bool,
) -> Result<Option<Change<'a>>, Error> {
    if !state.is_open(named) {
        return Ok(None);
    }
    let finished = FinishedAttempt {
        channel: state.channel,
        attempt: state.attempt,
        outcome: &receipt.answer.outcome,
        limited_retries: limited_retries(receipt, &state)?,
        now: receipt.at,
        expires_at: state.expires_at,
        random: receipt.random,
    };
    let Some(verdict) = policy.receipt_verdict(finished) else {
        return Ok(None);
    };
    let change = |status, reason, next, state| Some(Change { receipt, named, state, status, reason, next });
    if let RetryDecision::End(status, reason) = verdict {
        return Ok(change(status, reason, None, state));
    }
    if state.is_erased {
        return Ok(change(Status::Skipped, Some(Reason::RecipientErased), None, state));
    }
    if is_cancelled {
        return Ok(change(Status::Cancelled, Some(Reason::RequestCancelled), None, state));
    }
    let Some((stream, job)) = next_job(receipt, &state, &verdict)? else {
        // The job is no longer stored, so the delivery cannot be attempted again.
        return Ok(change(Status::Failed, Some(Reason::RetriesExhausted), None, state));
    };
    Ok(match verdict {
        RetryDecision::RetryAt(at) => change(Status::Retrying, None, Some((stream, job, Some(at))), state),
        _ => change(Status::Parked, Some(Reason::RetriesExhausted), Some((stream, job, None)), state),
    })
}

/// Returns the number of retries on the limited schedule up to the last attempt; 0 if the receipt's outcome is not limited
/// or the job is no longer stored.
fn limited_retries(receipt: &Receipt, state: &State) -> Result<u32, Error> {
    let Some((_, message)) = state.kept.as_ref().filter(|_| receipt.answer.outcome.is_limited()) else {
        return Ok(0);
    };
    Ok(match Envelope::decode(message).map_err(|error| unreadable(&error))?.event {
        Event::DeliveryJob(job) => job.limited_retries,
        _ => 0,
    })
}

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::Unreadable(error.to_string())
}

/// Builds the job of the next attempt from the stored job of the last attempt; None if no job is stored.
fn next_job(
    receipt: &Receipt,
    state: &State,
    verdict: &RetryDecision,
) -> Result<Option<(StreamName, Vec<u8>)>, Error> {
    let Some((stream, message)) = &state.kept else { return Ok(None) };
    let mut envelope = Envelope::decode(message).map_err(|error| unreadable(&error))?;
    let Event::DeliveryJob(job) = &mut envelope.event else { return Ok(None) };
    job.attempt = state.attempt + 1;
    job.limited_retries = match verdict {
        // A redrive restarts the count.
        RetryDecision::Park => 0,
        _ => job.limited_retries + u32::from(receipt.answer.outcome.is_limited()),
    };
    // The provider reported that the message was not delivered, so any provider may be called. If the outcome is
    // `PauseProvider`, its provider is tried last.
    job.route.unbind();
    if receipt.answer.outcome == Outcome::PauseProvider {
        job.route.passed_over.extend(state.provider.clone());
    }
    envelope.caused_by = Some(envelope.id);
    envelope.id = receipt.id;
    envelope.at = receipt.at;
    let message = envelope.encode().map_err(|error| unreadable(&error))?;
    Ok(Some((*stream, message)))
}

pub(super) async fn write(connection: &mut PgConnection, changes: &[Change<'_>]) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    update_deliveries(connection, changes).await?;
    add_to_attempts(connection, changes).await?;
    let mut timers: Vec<NewTimer> = changes.iter().filter_map(Change::timer).collect();
    let dead: Vec<_> = changes.iter().filter_map(Change::dead_target).collect();
    let suppressed = suppression::suppress(connection, &dead).await?;
    for change in changes {
        let is_suppressed = suppressed.contains(&(change.named.app, change.named.delivery));
        change.push_events(is_suppressed, &mut timers)?;
    }
    timer::insert(connection, &timers).await?;
    parked::park(connection, &changes.iter().filter_map(Change::parking).collect::<Vec<_>>()).await
}

async fn update_deliveries(connection: &mut PgConnection, changes: &[Change<'_>]) -> Result<(), Error> {
    sqlx::query(
        "WITH new AS (
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[]) AS new (app_id, id, status, reason)
         ), done AS (
           DELETE FROM awaiting_receipt kept USING new WHERE (kept.app_id, kept.delivery_id) = (new.app_id, new.id)
         )
         UPDATE delivery d SET status = new.status, reason = new.reason, calling = false, lease_until = NULL,
           attempt = d.attempt + (new.status IN ('retrying', 'parked'))::int,
           settled_at = CASE WHEN new.status <> 'retrying' THEN now() END
         FROM new WHERE (d.app_id, d.id) = (new.app_id, new.id)",
    )
    .bind(changes.iter().map(|change| change.named.app.0).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.named.delivery.0).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.status.as_str()).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.reason.map(Reason::as_str)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds each receipt to the row of its attempt. If the worker died before it settled the attempt, the row does not exist
/// yet and is created here.
async fn add_to_attempts(connection: &mut PgConnection, changes: &[Change<'_>]) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message, receipt, receipt_code, receipt_message, receipt_at)
         SELECT app_id, id, number, at, at, provider, 'unknown', 'lease', '', receipt, code, message, at
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[],
             $8::timestamptz[]) AS new (app_id, id, number, provider, receipt, code, message, at)
         ON CONFLICT (app_id, delivery_id, number) DO UPDATE SET receipt = excluded.receipt,
           receipt_code = excluded.receipt_code, receipt_message = excluded.receipt_message,
           receipt_at = excluded.receipt_at",
    )
    .bind(changes.iter().map(|change| change.named.app.0).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.named.delivery.0).collect::<Vec<_>>())
    .bind(
        changes
            .iter()
            .map(|change| i32::try_from(change.state.attempt).unwrap_or(i32::MAX))
            .collect::<Vec<_>>(),
    )
    .bind(changes.iter().map(|change| change.state.provider.as_deref()).collect::<Vec<_>>())
    .bind(changes.iter().map(Change::receipt_name).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.receipt.answer.code.as_str()).collect::<Vec<_>>())
    .bind(changes.iter().map(Change::provider_text).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| instant(change.receipt.at)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

impl Change<'_> {
    fn receipt_name(&self) -> &'static str {
        match self.receipt.answer.outcome {
            Outcome::Sent { .. } => Status::Delivered.as_str(),
            ref refused => refused.name(),
        }
    }

    fn provider_text(&self) -> &str {
        if self.state.is_erased { "" } else { &self.receipt.answer.message }
    }

    fn timer(&self) -> Option<NewTimer> {
        let (stream, message, due_at) = self.next.as_ref()?;
        Some(NewTimer {
            id: self.receipt.id,
            due_at: (*due_at)?,
            stream: *stream,
            message: message.clone(),
            app: self.named.app,
            send_id: Some(self.named.send_id),
            user: Some(self.state.user),
        })
    }

    fn parking(&self) -> Option<NewParked<'_>> {
        match &self.next {
            Some((stream, message, None)) => Some(NewParked {
                app: self.named.app,
                send_id: Some(self.named.send_id),
                delivery: self.named.delivery,
                user: self.state.user,
                stream: *stream,
                message,
                cause: &self.receipt.answer.code,
            }),
            _ => None,
        }
    }

    fn dead_target(&self) -> Option<DeadTarget<'_>> {
        let code = &self.receipt.answer.code;
        let is_dead = matches!(self.receipt.answer.outcome, Outcome::TargetGone(_)) && !self.state.is_erased;
        is_dead.then_some(DeadTarget {
            app: self.named.app,
            delivery: self.named.delivery,
            code,
            since: None,
        })
    }

    /// Adds timers that publish the events of the change. They are committed with the change, so only committed changes are
    /// published.
    fn push_events(&self, is_suppressed: bool, timers: &mut Vec<NewTimer>) -> Result<(), Error> {
        let delivery_id = self.named.delivery;
        let user = self.state.user;
        let channel = self.state.channel;
        let settled = DeliverySettled {
            delivery_id,
            channel,
            user,
            attempt: self.state.attempt,
            status: self.status,
            reason: self.reason,
            provider: self.state.provider.clone(),
        };
        let mut events = vec![("settled", Event::DeliverySettled(settled))];
        if is_suppressed {
            let suppressed = TargetSuppressed { delivery_id, channel, user };
            events.push(("suppressed", Event::TargetSuppressed(suppressed)));
        }
        for (name, event) in events {
            let id = Uuid::new_v5(&self.receipt.id, name.as_bytes());
            let app = self.named.app;
            let send_id = Some(self.named.send_id);
            let envelope =
                Envelope { id, app, at: self.receipt.at, send_id, caused_by: None, trace: None, event };
            let message = envelope.encode().map_err(|error| Error::Unreadable(error.to_string()))?;
            let due_at = self.receipt.at;
            let stream = StreamName::Outcome;
            timers.push(NewTimer { id, due_at, stream, message, app, send_id, user: None });
        }
        Ok(())
    }
}
