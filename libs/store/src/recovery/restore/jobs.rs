use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::event::DeliveryJob;
use domain::{AppId, DeliveryId, DeliveryIds, SendId};
use uuid::Uuid;

use crate::Error;
use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::recovery::restore::Restore;

#[derive(Clone, Debug)]
pub struct FoundJob {
    pub app: AppId,
    pub send_id: SendId,
    /// True if a worker may have received the job.
    pub handed_out: bool,
    pub job: DeliveryJob,
}

impl Restore {
    /// Writes the delivery of each job, and in its request how the ids of deliveries were derived. The delivery becomes `sending` if a
    /// worker may have received the job, and otherwise waits for the job. Does not change a delivery that has ended at this attempt or is
    /// already at a later attempt.
    ///
    /// If a worker may have received a job, also sets the column `calling`. The delivery then stays `sending` even if the log contains a
    /// second copy of the job, which no worker has received. Jobs of earlier releases do not contain the index of the recipient, which is
    /// then read from `planned_recipient` or set to -1.
    pub async fn add_jobs(&mut self, jobs: &[FoundJob]) -> Result<u64, Error> {
        columns! { found in latest_jobs(jobs) =>
            app_id = found.app.0,
            id = found.job.delivery_id.0,
            send_id = found.send_id.0,
            recipient = found.job.recipient.map(integer),
            user_number = found.job.user.0,
            channel = found.job.channel.as_str(),
            target = found.job.target.as_str(),
            expires_at = found.job.expires_at.map(instant),
            attempt = integer(found.job.attempt),
            handed_out = found.handed_out,
        }
        self.keep_delivery_ids(&app_id, &id, &send_id).await?;
        let written = sqlx::query_scalar!(
            r#"WITH written AS (
               INSERT INTO delivery AS known (app_id, id, send_id, recipient_index, user_number, channel, target,
                 expires_at, attempt, status, calling)
               SELECT app_id, id, send_id, coalesce(recipient, (
                   SELECT min(recipient_index) FROM planned_recipient p
                   WHERE (p.app_id, p.send_id, p.user_number) = (new.app_id, new.send_id, new.user_number)
                 ), -1), user_number, channel, target, expires_at, attempt,
                 CASE WHEN handed_out THEN 'sending' WHEN attempt > 1 THEN 'retrying' ELSE 'queued' END, handed_out
               FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::int[], $5::bigint[], $6::text[], $7::text[],
                   $8::timestamptz[], $9::int[], $10::bool[])
                 AS new (app_id, id, send_id, recipient, user_number, channel, target, expires_at, attempt, handed_out)
               ON CONFLICT (app_id, id) DO UPDATE SET attempt = excluded.attempt, status = excluded.status,
                 calling = excluded.calling, reason = NULL, lease_until = NULL, settled_at = NULL
                 WHERE known.attempt < excluded.attempt OR known.attempt = excluded.attempt
                   AND known.status IN ('queued', 'retrying', 'sending', 'parked')
                   AND (excluded.calling OR NOT known.calling)
               RETURNING app_id, id
             ), awaiting AS (
               DELETE FROM awaiting_receipt a USING written WHERE (a.app_id, a.delivery_id) = (written.app_id, written.id)
             ), parked AS (
               DELETE FROM parked p USING written WHERE (p.app_id, p.delivery_id) = (written.app_id, written.id)
             )
             SELECT count(*) AS "written!" FROM written"#,
            &app_id,
            &id,
            &send_id,
            &recipient as &[Option<i32>],
            &user_number,
            &channel as &[&str],
            &target as &[&str],
            &expires_at as &[Option<DateTime<Utc>>],
            &attempt,
            &handed_out
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(written.cast_unsigned())
    }

    /// The sends are planned with the same ids again.
    async fn keep_delivery_ids(
        &mut self,
        apps: &[i64],
        deliveries: &[Uuid],
        sends: &[Uuid],
    ) -> Result<(), Error> {
        let numbers: Vec<i16> =
            deliveries.iter().map(|&id| DeliveryIds::of(DeliveryId(id)).number()).collect();
        sqlx::query!(
            "UPDATE request r SET delivery_ids = found.ids
             FROM (SELECT DISTINCT * FROM unnest($1::bigint[], $2::uuid[], $3::smallint[])) AS found (app_id, send_id, ids)
             WHERE (r.app_id, r.send_id) = (found.app_id, found.send_id) AND r.delivery_ids IS DISTINCT FROM found.ids",
            apps,
            sends,
            &numbers
        )
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }
}

fn latest_jobs(jobs: &[FoundJob]) -> Vec<&FoundJob> {
    let mut latest: BTreeMap<_, &FoundJob> = BTreeMap::new();
    for found in jobs {
        let known = latest.entry((found.app.0, found.job.delivery_id.0)).or_insert(found);
        let place = |found: &FoundJob| (found.job.attempt, found.handed_out);
        if place(known) < place(found) {
            *known = found;
        }
    }
    latest.into_values().collect()
}
