//! Restoring deliveries from the jobs in the log.

use std::collections::BTreeMap;

use domain::event::DeliveryJob;
use domain::{AppId, SendId, StreamName};
use sqlx::{Connection as _, PgConnection};

use crate::Error;
use crate::database::instant::instant;
use crate::recovery::restore::{Restore, number};

/// A job found in the log.
#[derive(Clone, Debug)]
pub struct FoundJob {
    pub app: AppId,
    pub send_id: SendId,
    pub stream: StreamName,
    /// Sequence number of the job in the stream.
    pub seq: u64,
    /// True if a worker may have received the job.
    pub handed_out: bool,
    pub job: DeliveryJob,
}

impl Restore {
    /// Adds missing deliveries of jobs, and raises existing deliveries to the attempts of their jobs. Returns the number of
    /// deliveries written.
    ///
    /// # Errors
    /// The database failed; nothing is written.
    pub async fn add_jobs(&mut self, jobs: &[FoundJob]) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        write_jobs(&mut transaction, jobs).await?;
        let written = write_deliveries(&mut transaction, jobs).await?;
        transaction.commit().await?;
        Ok(written)
    }
}

async fn write_jobs(connection: &mut PgConnection, jobs: &[FoundJob]) -> Result<(), Error> {
    let mut last = BTreeMap::new();
    for found in jobs {
        let key = (found.app.0, found.job.delivery_id.0, number(found.job.attempt));
        let (_, handed_out) = last.insert(key, (found, found.handed_out)).unwrap_or((found, false));
        if handed_out {
            last.insert(key, (found, true));
        }
    }
    sqlx::query(
        "INSERT INTO restored_job AS known (app_id, delivery_id, attempt, stream, seq, handed_out)
         SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::bigint[], $6::bool[])
         ON CONFLICT (app_id, delivery_id, attempt) DO UPDATE SET stream = excluded.stream,
           seq = greatest(known.seq, excluded.seq), handed_out = known.handed_out OR excluded.handed_out",
    )
    .bind(last.keys().map(|(app, ..)| *app).collect::<Vec<_>>())
    .bind(last.keys().map(|(_, id, _)| *id).collect::<Vec<_>>())
    .bind(last.keys().map(|(.., attempt)| *attempt).collect::<Vec<_>>())
    .bind(last.values().map(|(found, _)| found.stream.to_string()).collect::<Vec<_>>())
    .bind(last.values().map(|(found, _)| found.seq.cast_signed()).collect::<Vec<_>>())
    .bind(last.values().map(|(_, handed_out)| *handed_out).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds or updates deliveries. A job for an attempt proves that the previous attempt was settled with a retry, even if the
/// backup contains another state. Jobs of earlier releases do not contain the index of the recipient: it is then read from
/// the user's plan row, or is -1 if no plan row exists.
async fn write_deliveries(connection: &mut PgConnection, jobs: &[FoundJob]) -> Result<u64, Error> {
    let mut latest: BTreeMap<_, &FoundJob> = BTreeMap::new();
    for found in jobs {
        let known = latest.entry((found.app.0, found.job.delivery_id.0)).or_insert(found);
        if known.job.attempt < found.job.attempt {
            *known = found;
        }
    }
    let all = || latest.values();
    let written = sqlx::query(
        "INSERT INTO delivery AS known (app_id, id, send_id, recipient_index, user_number, channel, target, expires_at,
           attempt, status)
         SELECT app_id, id, send_id, coalesce(recipient, (
             SELECT min(recipient_index) FROM planned_recipient p
             WHERE (p.app_id, p.send_id, p.user_number) = (new.app_id, new.send_id, new.user_number)
           ), -1), user_number, channel, target, expires_at, attempt,
           CASE WHEN attempt > 1 THEN 'retrying' ELSE 'queued' END
         FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::bigint[], $6::text[], $7::text[],
             $8::timestamptz[], $9::int[])
           AS new (app_id, id, send_id, recipient, user_number, channel, target, expires_at, attempt)
         ON CONFLICT (app_id, id) DO UPDATE SET attempt = excluded.attempt, status = 'retrying', reason = NULL,
           lease_until = NULL, calling = false, settled_at = NULL
           WHERE known.attempt < excluded.attempt",
    )
    .bind(all().map(|found| found.app.0).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.delivery_id.0).collect::<Vec<_>>())
    .bind(all().map(|found| found.send_id.0).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.recipient.map(number)).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.user.0).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.channel.as_str()).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.target.as_str()).collect::<Vec<_>>())
    .bind(all().map(|found| found.job.expires_at.map(instant)).collect::<Vec<_>>())
    .bind(all().map(|found| number(found.job.attempt)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(written.rows_affected())
}
