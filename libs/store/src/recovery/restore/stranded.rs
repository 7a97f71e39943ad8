//! Stranded deliveries, for which no job or timer exists, and deliveries that must not be attempted again.

use domain::event::DeliverySettled;
use domain::{
    AppId, Channel, DeliveryId, Envelope, Event, Reason, SendId, Status, StreamName, Timestamp, UserNumber,
};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, Row};
use uuid::Uuid;

use crate::Error;
use crate::deliveries::parked::{self, NewParked};
use crate::deliveries::timer::{self, NewTimer};
use crate::recovery::restore::Restore;

/// Maximum number of deliveries that one statement ends.
const STEP: i64 = 500;

/// A delivery whose next attempt the restore must start or park.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub send_id: SendId,
    pub user: UserNumber,
    /// Number of the next attempt.
    pub attempt: u32,
    /// The provider of the last call; None if no provider was called.
    pub provider: Option<String>,
    /// The stream of the delivery's jobs.
    pub stream: StreamName,
    /// The job from which the job of the next attempt is built.
    pub job: LastJob,
    /// Reason why the delivery is stranded; determines whether the next attempt is started or parked.
    pub stranded: StrandedAs,
}

/// The job from which the next attempt of a delivery is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastJob {
    /// The job is in the log, at this sequence number.
    InLog(u64),
    /// The encoded job is in the backup, where it was stored until the receipt arrived. The receipt has since reported a
    /// failure.
    Kept(Vec<u8>),
}

/// Reason why a delivery is stranded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrandedAs {
    /// A worker received the job, and its outcome is unknown. [`Stranded::job`] is the job of this attempt.
    HandedOut,
    /// The timer of the next attempt is lost. [`Stranded::job`] is the job of the previous attempt.
    Retrying,
    /// The parked message is lost. [`Stranded::job`] is the job of the previous attempt.
    Parked,
}

impl Restore {
    /// Sets parked deliveries to `retrying` if they were redriven, which means that the log has the job of their attempt,
    /// and removes their parked messages. If a delivery was parked again after the redrive, removes only the earlier
    /// message, whose attempt has already been made. Returns the number of reopened deliveries.
    ///
    /// # Errors
    /// The database failed; nothing is changed.
    pub async fn reopen(&mut self) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        let opened = sqlx::query(
            "UPDATE delivery d SET status = 'retrying', reason = NULL, settled_at = NULL
             FROM restored_job j WHERE (d.app_id, d.id, d.attempt) = (j.app_id, j.delivery_id, j.attempt)
               AND d.status = 'parked'",
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "DELETE FROM parked p USING delivery d, restored_job j
             WHERE (p.app_id, p.delivery_id) = (d.app_id, d.id) AND (j.app_id, j.delivery_id) = (d.app_id, d.id)
               AND (d.status <> 'parked' OR j.attempt = d.attempt - 1
                 AND (convert_from(p.message, 'UTF8')::json -> 'data' -> 'attempt')::text::int < d.attempt)",
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(opened.rows_affected())
    }

    /// Ends deliveries of channels whose calls must not be repeated as `unknown`, if a worker received the job and its
    /// outcome is unknown. Sets timers that publish these outcomes. Returns the number of ended deliveries.
    ///
    /// # Errors
    /// The database failed; deliveries ended so far stay ended.
    pub async fn end_unknown(&mut self, now: Timestamp) -> Result<usize, Error> {
        let mut ended = 0;
        loop {
            let mut transaction = self.connection.begin().await?;
            let rows = sqlx::query(
                "UPDATE delivery d SET status = $1, reason = $2, lease_until = NULL, calling = false, settled_at = now()
                 WHERE (d.app_id, d.id) IN (
                   SELECT d.app_id, d.id FROM delivery d
                   JOIN restored_job j ON (d.app_id, d.id, d.attempt) = (j.app_id, j.delivery_id, j.attempt)
                   WHERE j.handed_out AND d.channel = ANY($3) AND d.status IN ('queued', 'sending', 'retrying') LIMIT $4
                 )
                 RETURNING d.app_id, d.id, d.send_id, d.user_number, d.channel, d.attempt, d.provider",
            )
            .bind(Status::Unknown.as_str())
            .bind(Reason::OutcomeUnknown.as_str())
            .bind(Channel::ONCE.map(Channel::as_str).to_vec())
            .bind(STEP)
            .fetch_all(&mut *transaction)
            .await?;
            if rows.is_empty() {
                return Ok(ended);
            }
            let timers: Vec<NewTimer> =
                rows.iter().map(|row| event_timer(row, now)).collect::<Result<_, _>>()?;
            insert(&mut transaction, &timers).await?;
            transaction.commit().await?;
            ended += rows.len();
        }
    }

    /// Lists up to `limit` stranded deliveries after the key `after`, in key order.
    pub async fn stranded(
        &mut self,
        after: Option<(AppId, DeliveryId)>,
        limit: i64,
    ) -> Result<Vec<Stranded>, Error> {
        let rows = sqlx::query(
            "SELECT d.app_id, d.id, d.send_id, d.user_number, d.attempt, d.provider, j.stream, j.seq,
               d.status = 'parked' AS parked, j.attempt = d.attempt AS own
             FROM restored_job j JOIN delivery d ON (d.app_id, d.id) = (j.app_id, j.delivery_id)
             WHERE (j.app_id, j.delivery_id) > ($1, $2) AND (
                 d.status IN ('queued', 'sending', 'retrying') AND j.attempt = d.attempt AND j.handed_out
                   AND d.channel <> ALL($3)
               OR d.status = 'retrying' AND j.attempt = d.attempt - 1 AND NOT EXISTS (
                   SELECT FROM restored_job own
                   WHERE (own.app_id, own.delivery_id, own.attempt) = (d.app_id, d.id, d.attempt)
                 )
               OR d.status = 'parked' AND j.attempt = d.attempt - 1 AND NOT EXISTS (
                   SELECT FROM parked p WHERE (p.app_id, p.delivery_id) = (d.app_id, d.id)
                 )
             )
             ORDER BY j.app_id, j.delivery_id LIMIT $4",
        )
        .bind(after.map_or(0, |(app, _)| app.0))
        .bind(after.map_or(Uuid::nil(), |(_, delivery)| delivery.0))
        .bind(Channel::ONCE.map(Channel::as_str).to_vec())
        .bind(limit)
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter().map(read).collect()
    }

    /// Sets the timers of stranded deliveries that are attempted again, and parks the messages of the others. Replaces the
    /// timers of an earlier, interrupted restore.
    ///
    /// # Errors
    /// The database failed; nothing is changed.
    pub async fn put_back(
        &mut self,
        timers: &[NewTimer],
        parked: &[(Stranded, Vec<u8>)],
    ) -> Result<(), Error> {
        let parked: Vec<_> = parked
            .iter()
            .map(|(stranded, message)| NewParked {
                app: stranded.app,
                send_id: Some(stranded.send_id),
                delivery: stranded.delivery,
                user: stranded.user,
                stream: stranded.stream,
                message,
                cause: "restored",
            })
            .collect();
        let mut transaction = self.connection.begin().await?;
        insert(&mut transaction, timers).await?;
        parked::park(&mut transaction, &parked).await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// Sets timers, replacing those with the same ids from an earlier, interrupted restore.
pub(super) async fn insert(connection: &mut PgConnection, timers: &[NewTimer]) -> Result<(), Error> {
    sqlx::query("DELETE FROM timer WHERE id = ANY($1)")
        .bind(timers.iter().map(|timer| timer.id).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    timer::insert(connection, timers).await
}

/// Builds the timer that publishes the unknown outcome of a delivery. The event has the same id as if a worker had
/// published it.
fn event_timer(row: &PgRow, now: Timestamp) -> Result<NewTimer, Error> {
    let channel: &str = row.try_get("channel")?;
    let app = AppId(row.try_get("app_id")?);
    let send_id = Some(SendId(row.try_get("send_id")?));
    let settled = DeliverySettled {
        delivery_id: DeliveryId(row.try_get("id")?),
        channel: channel.parse().map_err(|_| Error::Unreadable(format!("channel {channel}")))?,
        user: UserNumber(row.try_get("user_number")?),
        attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or_default(),
        status: Status::Unknown,
        reason: Some(Reason::OutcomeUnknown),
        provider: row.try_get("provider")?,
    };
    let (_, id) = settled.ids("settled");
    let event = Event::DeliverySettled(settled);
    let envelope = Envelope { id, app, at: now, send_id, caused_by: None, trace: None, event };
    let message = envelope.encode().map_err(|error| Error::Unreadable(error.to_string()))?;
    Ok(NewTimer { id, due_at: now, stream: StreamName::Outcome, message, app, send_id, user: None })
}

fn read(row: &PgRow) -> Result<Stranded, Error> {
    let stream: &str = row.try_get("stream")?;
    let seq: i64 = row.try_get("seq")?;
    let stranded = match (row.try_get("parked")?, row.try_get("own")?) {
        (true, _) => StrandedAs::Parked,
        (false, true) => StrandedAs::HandedOut,
        (false, false) => StrandedAs::Retrying,
    };
    Ok(Stranded {
        app: AppId(row.try_get("app_id")?),
        delivery: DeliveryId(row.try_get("id")?),
        send_id: SendId(row.try_get("send_id")?),
        user: UserNumber(row.try_get("user_number")?),
        attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or_default(),
        provider: row.try_get("provider")?,
        stream: stream.parse().map_err(|_| Error::Unreadable(format!("stream {stream}")))?,
        job: LastJob::InLog(seq.cast_unsigned()),
        stranded,
    })
}
