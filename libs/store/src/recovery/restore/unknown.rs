//! Deliveries whose outcome the log does not contain. A restore ends them as `unknown`.

use domain::event::DeliverySettled;
use domain::{AppId, DeliveryId, Envelope, Event, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Row};
use uuid::Uuid;

use crate::Error;
use crate::deliveries::timer::NewTimer;
use crate::recovery::restore::{Restore, unfinished};

/// Maximum number of deliveries that one statement ends.
const STEP: i64 = 500;

impl Restore {
    /// Sets deliveries to `sending` if they waited for a job at the time of the backup, because a worker may have received
    /// the job since. [`Restore::add_jobs`] then resets deliveries whose job no worker has received. Deliveries for which
    /// the backup contains a timer do not change.
    pub async fn doubt_waiting(&mut self) -> Result<(), Error> {
        sqlx::query(
            "UPDATE delivery d SET status = 'sending', lease_until = NULL
             WHERE d.status IN ('queued', 'retrying') AND NOT EXISTS (
               SELECT FROM timer t
               WHERE (t.app_id, t.send_id, t.user_number) = (d.app_id, d.send_id, d.user_number)
                 AND t.stream LIKE 'JOB%'
                 AND convert_from(t.message, 'UTF8')::json -> 'data' ->> 'deliveryId' = d.id::text
             )",
        )
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }

    /// Changes the status of all deliveries from `sending` to `unknown`, which ends them, so that no provider is called for
    /// them again. Sets timers that publish these outcomes. Returns the number of ended deliveries.
    ///
    /// # Errors
    /// Returns an error if the database fails. Deliveries that already ended stay ended.
    pub async fn end_unknown(&mut self, now: Timestamp) -> Result<u64, Error> {
        let mut ended = 0;
        let mut after = (0_i64, Uuid::nil());
        loop {
            let mut transaction = self.connection.begin().await?;
            let rows = sqlx::query(
                "UPDATE delivery d SET status = $1, reason = $2, lease_until = NULL, calling = false, settled_at = now()
                 FROM (
                   SELECT app_id, id FROM delivery WHERE status = 'sending' AND (app_id, id) > ($3, $4)
                   ORDER BY app_id, id LIMIT $5
                 ) AS open
                 WHERE (d.app_id, d.id) = (open.app_id, open.id)
                 RETURNING d.app_id, d.id, d.send_id, d.user_number, d.channel, d.attempt, d.provider",
            )
            .bind(Status::Unknown.as_str())
            .bind(Reason::OutcomeUnknown.as_str())
            .bind(after.0)
            .bind(after.1)
            .bind(STEP)
            .fetch_all(&mut *transaction)
            .await?;
            if rows.is_empty() {
                return Ok(ended);
            }
            let timers: Vec<NewTimer> =
                rows.iter().map(|row| event_timer(row, now)).collect::<Result<_, _>>()?;
            unfinished::set_timers(&mut transaction, &timers).await?;
            transaction.commit().await?;
            for row in &rows {
                after = after.max((row.try_get("app_id")?, row.try_get("id")?));
            }
            ended += rows.len() as u64;
        }
    }
}

/// Builds the timer that publishes the unknown outcome of a delivery. The event has the id that it would have if a worker had
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
