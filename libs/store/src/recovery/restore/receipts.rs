//! Deliveries whose provider accepted the message and later reported a failure in a receipt. To build the next attempt, the
//! backup may have only the job that was stored until the receipt arrived.

use domain::{AppId, DeliveryId, SendId, UserNumber};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::Error;
use crate::recovery::restore::{LastJob, Restore, Stranded, StrandedAs};

impl Restore {
    /// Lists up to `limit` deliveries after the key `after`, in key order: those that a receipt set to `retrying` or
    /// `parked` after the backup and that have no job in the log.
    pub async fn stranded_by_receipts(
        &mut self,
        after: Option<(AppId, DeliveryId)>,
        limit: i64,
    ) -> Result<Vec<Stranded>, Error> {
        let rows = sqlx::query(
            "SELECT d.app_id, d.id, d.send_id, d.user_number, d.attempt, d.provider, k.stream, k.message,
               d.status = 'parked' AS parked
             FROM awaiting_receipt k JOIN delivery d ON (d.app_id, d.id) = (k.app_id, k.delivery_id)
             WHERE (k.app_id, k.delivery_id) > ($1, $2) AND d.status IN ('retrying', 'parked')
               AND NOT EXISTS (
                 SELECT FROM restored_job j
                 WHERE (j.app_id, j.delivery_id) = (d.app_id, d.id) AND j.attempt >= d.attempt - 1
               )
               AND NOT EXISTS (SELECT FROM parked p WHERE (p.app_id, p.delivery_id) = (d.app_id, d.id))
             ORDER BY k.app_id, k.delivery_id LIMIT $3",
        )
        .bind(after.map_or(0, |(app, _)| app.0))
        .bind(after.map_or(Uuid::nil(), |(_, delivery)| delivery.0))
        .bind(limit)
        .fetch_all(&mut self.connection)
        .await?;
        rows.iter().map(read).collect()
    }

    /// Removes the jobs that the backup stored for receipts that have arrived since. Returns the number of deliveries in
    /// `retrying` or `parked` for which no job, timer or parked message exists.
    pub async fn forget_kept_jobs(&mut self) -> Result<u64, Error> {
        sqlx::query(
            "DELETE FROM awaiting_receipt k USING delivery d
             WHERE (d.app_id, d.id) = (k.app_id, k.delivery_id) AND d.status NOT IN ('sent', 'unknown')",
        )
        .execute(&mut self.connection)
        .await?;
        let left: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM delivery d
             WHERE d.status IN ('retrying', 'parked')
               AND NOT EXISTS (
                 SELECT FROM restored_job j
                 WHERE (j.app_id, j.delivery_id) = (d.app_id, d.id) AND j.attempt >= d.attempt - 1
               )
               AND NOT EXISTS (
                 SELECT FROM timer t
                 WHERE (t.app_id, t.send_id, t.user_number) = (d.app_id, d.send_id, d.user_number)
                   AND t.stream LIKE 'JOB_' || d.channel || '_%'
               )
               AND NOT EXISTS (SELECT FROM parked p WHERE (p.app_id, p.delivery_id) = (d.app_id, d.id))",
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(left.cast_unsigned())
    }
}

fn read(row: &PgRow) -> Result<Stranded, Error> {
    let stream: &str = row.try_get("stream")?;
    Ok(Stranded {
        app: AppId(row.try_get("app_id")?),
        delivery: DeliveryId(row.try_get("id")?),
        send_id: SendId(row.try_get("send_id")?),
        user: UserNumber(row.try_get("user_number")?),
        attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or_default(),
        provider: row.try_get("provider")?,
        stream: stream.parse().map_err(|_| Error::Unreadable(format!("stream {stream}")))?,
        job: LastJob::Kept(row.try_get("message")?),
        stranded: if row.try_get("parked")? { StrandedAs::Parked } else { StrandedAs::Retrying },
    })
}
