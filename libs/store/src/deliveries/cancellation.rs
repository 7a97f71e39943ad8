//! Cancellation of requests. After a cancellation, no new attempt of the request's deliveries starts.
//!
//! Planning a chunk and scheduling a retry lock the request row in share mode, and cancelling locks it exclusively. Therefore
//! a cancellation sees all plans and retries that committed before it, and a plan or retry that gets its lock after the
//! cancellation sees that the request is cancelled.

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::event::RequestCancelled;
use domain::{
    Action, Actor, AppId, Channel, DeliveryIds, Envelope, Event, Reason, SendId, Status, StreamName,
    Timestamp, plan,
};
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::database::columns::integer;
use crate::database::instant::instant;
use crate::deliveries::timer::{self, NewTimer};
use crate::{Deliveries, Error, database::audit::AuditEntry, sends::send};

/// A send to topics can have millions of deliveries.
const STEP: i64 = 5_000;

struct CancelledRequest {
    app: AppId,
    send_id: SendId,
    recipients: i64,
    /// True if chunks with further subscribers of its topics follow.
    expanding: bool,
    /// None if the request names no channels or its body is no longer stored.
    selected: Option<Vec<Channel>>,
}

impl Deliveries<'_> {
    /// Cancels a request on behalf of `actor`. Returns the number of stopped deliveries; a recipient that is not planned yet counts as one
    /// delivery per channel that the send could use.
    ///
    /// A worker that has claimed a delivery finishes its attempt, but the delivery is not retried. A request that has ended or is already
    /// cancelled does not change. A parked send without a request row can no longer be redriven.
    ///
    /// If more than 5,000 deliveries wait, the request is cancelled with the first of them, and the others end in further transactions. If
    /// the call is interrupted, a repeated call continues.
    pub async fn cancel_request(self, app: AppId, send_id: SendId, actor: &Actor) -> Result<u64, Error> {
        let mut stopped = self.begin_cancellation(app, send_id, actor).await?;
        loop {
            let ended = end_deliveries_of_cancelled(&self.0.pool, app, send_id).await?;
            stopped += ended;
            if ended < STEP.unsigned_abs() {
                return Ok(stopped);
            }
        }
    }

    async fn begin_cancellation(self, app: AppId, send_id: SendId, actor: &Actor) -> Result<u64, Error> {
        let mut transaction = self.0.begin().await?;
        let Some(request) = hold(&mut transaction, app, send_id).await? else {
            let stopped = stop_parked(&mut transaction, app, send_id).await?;
            if stopped.is_some() {
                record(&mut transaction, app, send_id, actor).await?;
            }
            transaction.commit().await?;
            return Ok(stopped.unwrap_or_default());
        };
        let waiting = end_deliveries(&mut transaction, &request).await?;
        let unplanned = count_unplanned(&mut transaction, &request).await?;
        let stopped = waiting + unplanned;
        if stopped == 0 && !request.expanding && !is_any_left(&mut transaction, &request).await? {
            return Ok(0);
        }
        hasten_timers(&mut transaction, &request).await?;
        let cancelled_at = sqlx::query_scalar!(
            r#"UPDATE request SET cancelled_at = now() WHERE app_id = $1 AND send_id = $2
               RETURNING cancelled_at AS "cancelled_at!""#,
            app.0,
            send_id.0
        )
        .fetch_one(&mut *transaction)
        .await?;
        publish(&mut transaction, app, send_id, cancelled_at.into()).await?;
        record(&mut transaction, app, send_id, actor).await?;
        transaction.commit().await?;
        Ok(stopped)
    }
}

async fn record(
    connection: &mut PgConnection,
    app: AppId,
    send_id: SendId,
    actor: &Actor,
) -> Result<(), Error> {
    AuditEntry::new(app, actor, Action::RequestCancel, &format!("request {send_id}")).write(connection).await
}

/// After a restore from a backup, the request is cancelled again because of the event `RequestCancelled`. A request is cancelled at most
/// once, so the id of the event is derived from the send id.
pub(crate) async fn publish(
    connection: &mut PgConnection,
    app: AppId,
    send_id: SendId,
    at: Timestamp,
) -> Result<(), Error> {
    let id = Uuid::new_v5(&send_id.0, b"cancelled");
    let event = Event::RequestCancelled(RequestCancelled {});
    let envelope = Envelope { id, app, at, send_id: Some(send_id), caused_by: None, trace: None, event };
    let message = envelope.encode()?;
    let stream = StreamName::Outcome;
    let timer =
        NewTimer { id, due_at: at, stream, message, app, send_id: Some(send_id), user: None, wait: None };
    timer::insert(connection, &[timer]).await
}

/// Locks the request until the transaction ends. Returns None if it is unknown or already cancelled.
async fn hold(
    connection: &mut PgConnection,
    app: AppId,
    send_id: SendId,
) -> Result<Option<CancelledRequest>, Error> {
    let row = sqlx::query!(
        r#"SELECT recipients, expanding, body -> 'channels' AS "selected: Json<Vec<Channel>>" FROM request
           WHERE app_id = $1 AND send_id = $2 AND cancelled_at IS NULL FOR UPDATE"#,
        app.0,
        send_id.0
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(CancelledRequest {
        app,
        send_id,
        recipients: row.recipients.into(),
        expanding: row.expanding,
        selected: row.selected.map(|Json(channels)| channels),
    }))
}

/// Cancels a parked send that has no request row. The cancelled request row that it writes also stops a concurrent redrive. Returns None if
/// no such send is parked or if a request row exists.
pub(crate) async fn stop_parked(
    connection: &mut PgConnection,
    app: AppId,
    send_id: SendId,
) -> Result<Option<u64>, Error> {
    let messages = sqlx::query_scalar!(
        "DELETE FROM parked WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3)
           AND NOT EXISTS (SELECT FROM request WHERE app_id = $1 AND send_id = $2)
         RETURNING message",
        app.0,
        send_id.0,
        &send::streams()
    )
    .fetch_all(&mut *connection)
    .await?;
    let envelopes = messages.iter().filter_map(|message| Envelope::decode(message).ok());
    let mut accepted = envelopes.filter_map(|envelope| match envelope.event {
        Event::SendAccepted(send) => Some((envelope.at, send)),
        _ => None,
    });
    let Some((accepted_at, send)) = accepted.next_back() else { return Ok(None) };
    let cancelled_at = sqlx::query_scalar!(
        r#"INSERT INTO request (app_id, send_id, accepted_at, send_at, expires_at, lane, recipients, cancelled_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, now()) RETURNING cancelled_at AS "cancelled_at!""#,
        app.0,
        send_id.0,
        instant(accepted_at),
        send.send_at.map(instant),
        send.expires_at.map(instant),
        send.lane.as_str(),
        integer(send.recipients.len())
    )
    .fetch_one(&mut *connection)
    .await?;
    publish(connection, app, send_id, cancelled_at.into()).await?;
    let stopped = send.recipients.len() * plan::cancellable_channels(send.channels.as_deref()).len();
    Ok(Some(stopped as u64))
}

/// Ends the deliveries that wait for an attempt or whose lease has expired, unless the worker may have started a call that must not be
/// repeated. A worker whose lease has expired can still settle its attempt; the outcome then replaces the status `cancelled`.
async fn end_deliveries(connection: &mut PgConnection, request: &CancelledRequest) -> Result<u64, Error> {
    let ended = sqlx::query!(
        "WITH held AS (
           SELECT app_id, id FROM delivery
           WHERE app_id = $1 AND send_id = $2
             AND (status = ANY($5) OR status = 'sending' AND lease_until <= now() AND NOT calling)
           ORDER BY app_id, id LIMIT $6 FOR UPDATE
         )
         UPDATE delivery d SET status = $3, reason = $4, lease_until = NULL, settled_at = now()
         FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id)",
        request.app.0,
        request.send_id.0,
        Status::Cancelled.as_str(),
        Reason::RequestCancelled.as_str(),
        &Status::WAITING.map(Status::as_str) as &[&str],
        STEP
    )
    .execute(connection)
    .await?;
    Ok(ended.rows_affected())
}

async fn end_deliveries_of_cancelled(pool: &PgPool, app: AppId, send_id: SendId) -> Result<u64, Error> {
    let ended = sqlx::query!(
        "WITH held AS (
           SELECT d.app_id, d.id FROM delivery d JOIN request r USING (app_id, send_id)
           WHERE d.app_id = $1 AND d.send_id = $2 AND r.cancelled_at IS NOT NULL AND d.status = ANY($5)
           ORDER BY d.app_id, d.id LIMIT $6 FOR UPDATE OF d
         )
         UPDATE delivery d SET status = $3, reason = $4, lease_until = NULL, settled_at = now()
         FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id)",
        app.0,
        send_id.0,
        Status::Cancelled.as_str(),
        Reason::RequestCancelled.as_str(),
        &Status::WAITING.map(Status::as_str) as &[&str],
        STEP
    )
    .execute(pool)
    .await?;
    Ok(ended.rows_affected())
}

async fn count_unplanned(connection: &mut PgConnection, request: &CancelledRequest) -> Result<u64, Error> {
    let planned = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM planned_recipient WHERE app_id = $1 AND send_id = $2"#,
        request.app.0,
        request.send_id.0
    )
    .fetch_one(connection)
    .await?;
    let unplanned = u64::try_from(request.recipients - planned).unwrap_or_default();
    Ok(unplanned * plan::cancellable_channels(request.selected.as_deref()).len() as u64)
}

async fn is_any_left(connection: &mut PgConnection, request: &CancelledRequest) -> Result<bool, Error> {
    let is_left = sqlx::query_scalar!(
        r#"SELECT EXISTS (
             SELECT FROM delivery WHERE app_id = $1 AND send_id = $2 AND status IN ('sending', 'parked')
           ) AS "is_left!""#,
        request.app.0,
        request.send_id.0
    )
    .fetch_one(connection)
    .await?;
    Ok(is_left)
}

/// Makes the request's timers due now, so that its remaining chunks are planned as cancelled. Retries are published too; the worker then
/// finds that the delivery has ended, and publishes its outcome.
async fn hasten_timers(connection: &mut PgConnection, request: &CancelledRequest) -> Result<(), Error> {
    let jobs = StreamName::all(0).into_iter().filter(|name| matches!(name, StreamName::Job(..)));
    let streams: Vec<_> = jobs.map(|name| name.to_string()).chain(send::streams()).collect();
    sqlx::query!(
        "UPDATE timer SET due_at = now() WHERE due_at > now() AND id IN (
           SELECT id FROM timer WHERE app_id = $1 AND send_id = $2 AND stream = ANY($3) FOR UPDATE SKIP LOCKED
         )",
        request.app.0,
        request.send_id.0,
        &streams
    )
    .execute(connection)
    .await?;
    Ok(())
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockedRequest {
    pub(crate) is_cancelled: bool,
    pub(crate) delivery_ids: DeliveryIds,
}

/// Locks all of `requests` in share mode, so that none of them can be cancelled until the transaction ends.
pub(crate) async fn cancelled_among(
    connection: &mut PgConnection,
    requests: &[(AppId, SendId)],
) -> Result<HashSet<(AppId, SendId)>, Error> {
    let locked = lock_requests(connection, requests).await?;
    Ok(locked.into_iter().filter(|(_, request)| request.is_cancelled).map(|(named, _)| named).collect())
}

/// Locks requests against cancellation until the transaction ends. Returns those that exist.
pub(crate) async fn lock_requests(
    connection: &mut PgConnection,
    requests: &[(AppId, SendId)],
) -> Result<HashMap<(AppId, SendId), LockedRequest>, Error> {
    let requests: BTreeSet<_> = requests.iter().map(|(app, send_id)| (app.0, send_id.0)).collect();
    if requests.is_empty() {
        return Ok(HashMap::new());
    }
    let (apps, send_ids): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
    let rows = sqlx::query!(
        r#"SELECT r.app_id, r.send_id, r.cancelled_at IS NOT NULL AS "is_cancelled!", r.delivery_ids FROM request r
           JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, send_id) USING (app_id, send_id)
           ORDER BY r.app_id, r.send_id FOR SHARE OF r"#,
        &apps,
        &send_ids
    )
    .fetch_all(connection)
    .await?;
    let locked = rows.into_iter().map(|row| {
        // A row without a number was written by release 0.3 or earlier, or by a restore.
        let delivery_ids = row.delivery_ids.and_then(DeliveryIds::from_number).unwrap_or(DeliveryIds::Hashed);
        let request = LockedRequest { is_cancelled: row.is_cancelled, delivery_ids };
        ((AppId(row.app_id), SendId(row.send_id)), request)
    });
    Ok(locked.collect())
}
