use domain::event::DeliverySettled;
use domain::{AppId, DeliveryId, Envelope, Event, Reason, SendId, Status, StreamName, Timestamp, UserNumber};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::Error;
use crate::deliveries::timer::NewTimer;
use crate::recovery::restore::{Restore, unfinished};

const STEP: i64 = 500;

impl Restore {
    /// Sets deliveries to `sending` if they waited for a job at the time of the backup, because a worker may have received the job since.
    /// [`Restore::add_jobs`] later resets the status of a delivery if no worker has received its job. Deliveries for which the backup
    /// contains a timer do not change.
    pub async fn doubt_waiting(&mut self) -> Result<(), Error> {
        sqlx::query!(
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

    /// Ends all deliveries in status `sending` as `unknown`, so that no provider is called for them again. Sets timers that publish these
    /// outcomes. After an error, deliveries that already ended stay ended.
    pub async fn end_unknown(&mut self, now: Timestamp) -> Result<u64, Error> {
        let mut ended = 0;
        let mut after = (0_i64, Uuid::nil());
        loop {
            let mut transaction = self.connection.begin().await?;
            let rows = sqlx::query_as!(
                EndedRow,
                "UPDATE delivery d SET status = $1, reason = $2, lease_until = NULL, calling = false, settled_at = now()
                 FROM (
                   SELECT app_id, id FROM delivery WHERE status = 'sending' AND (app_id, id) > ($3, $4)
                   ORDER BY app_id, id LIMIT $5
                 ) AS open
                 WHERE (d.app_id, d.id) = (open.app_id, open.id)
                 RETURNING d.app_id, d.id, d.send_id, d.user_number, d.channel, d.attempt, d.provider",
                Status::Unknown.as_str(),
                Reason::OutcomeUnknown.as_str(),
                after.0,
                after.1,
                STEP
            )
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
                after = after.max((row.app_id, row.id));
            }
            ended += rows.len() as u64;
        }
    }
}

struct EndedRow {
    app_id: i64,
    id: Uuid,
    send_id: Uuid,
    user_number: i64,
    channel: String,
    attempt: i32,
    provider: Option<String>,
}

/// The event has the id that it would have if a worker had published it.
fn event_timer(row: &EndedRow, now: Timestamp) -> Result<NewTimer, Error> {
    let channel = &row.channel;
    let app = AppId(row.app_id);
    let send_id = Some(SendId(row.send_id));
    let settled = DeliverySettled {
        delivery_id: DeliveryId(row.id),
        channel: channel.parse().map_err(|_| Error::Unreadable(format!("channel {channel}")))?,
        user: UserNumber(row.user_number),
        attempt: u32::try_from(row.attempt).unwrap_or_default(),
        status: Status::Unknown,
        reason: Some(Reason::OutcomeUnknown),
        provider: row.provider.clone(),
    };
    let (_, id) = settled.ids("settled");
    let event = Event::DeliverySettled(settled);
    let envelope = Envelope { id, app, at: now, send_id, caused_by: None, trace: None, event };
    let message = envelope.encode().map_err(|error| Error::Unreadable(error.to_string()))?;
    Ok(NewTimer {
        id,
        due_at: now,
        stream: StreamName::Outcome,
        message,
        app,
        send_id,
        user: None,
        wait: None,
    })
}
