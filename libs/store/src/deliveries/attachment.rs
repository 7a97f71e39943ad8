//! Files attached to sends. The gateway writes the files before the send is accepted. The email worker reads them.

use std::time::Duration;

use domain::{AppId, SendId, Status, Timestamp};
use sqlx::PgConnection;

use crate::database::instant::instant;
use crate::{Deliveries, Error};

/// Added to the log's retention: a file is written shortly before its send enters the log, and must be kept until the send has left the
/// log.
const MARGIN: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Review {
    pub looked_at: u64,
    pub removed: u64,
}

impl Deliveries<'_> {
    /// Stores the files of a send, numbered from 0, unless they are stored already. They are kept at least until `from` plus `retention`
    /// plus one hour, and longer while a delivery or a chunk of the send needs them.
    pub async fn keep_attachments(
        self,
        app: AppId,
        send_id: SendId,
        contents: &[Vec<u8>],
        from: Timestamp,
        retention: Duration,
    ) -> Result<(), Error> {
        if contents.is_empty() || self.has_attachments(app, send_id, contents.len()).await? {
            return Ok(());
        }
        let numbers: Vec<i32> = (0..).take(contents.len()).collect();
        sqlx::query!(
            "INSERT INTO attachment (app_id, send_id, number, content, keep_until)
             SELECT $1, $2, number, content, $5 FROM unnest($3::int[], $4::bytea[]) AS new (number, content)
             ON CONFLICT (app_id, send_id, number) DO NOTHING",
            app.0,
            send_id.0,
            &numbers,
            contents,
            instant(from + retention + MARGIN)
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    async fn has_attachments(self, app: AppId, send_id: SendId, count: usize) -> Result<bool, Error> {
        let found = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM attachment WHERE app_id = $1 AND send_id = $2"#,
            app.0,
            send_id.0
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(usize::try_from(found).is_ok_and(|found| found >= count))
    }

    /// None if the file never existed or was removed.
    pub async fn attachment(
        self,
        app: AppId,
        send_id: SendId,
        number: u32,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Ok(number) = i32::try_from(number) else { return Ok(None) };
        let content = sqlx::query_scalar!(
            "SELECT content FROM attachment WHERE app_id = $1 AND send_id = $2 AND number = $3",
            app.0,
            send_id.0,
            number
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(content)
    }

    /// Removes up to `most` files whose retention has ended, including files of sends that were never accepted. A file that is still needed
    /// (by an unfinished or parked delivery, an unplanned chunk or a parked message) is examined again after one hour.
    ///
    /// The caller must ensure that the log contains no unprocessed send that is older than the retention.
    pub async fn review_old_attachments(self, most: u32) -> Result<Review, Error> {
        let needed: Vec<&str> =
            Status::OPEN.iter().chain(&[Status::Parked]).map(|status| status.as_str()).collect();
        let reviewed = sqlx::query!(
            r#"WITH old AS MATERIALIZED (
               SELECT app_id, send_id, number FROM attachment WHERE keep_until < now()
               ORDER BY keep_until LIMIT $1 FOR UPDATE SKIP LOCKED
             ), judged AS MATERIALIZED (
               SELECT o.app_id, o.send_id, o.number,
                 EXISTS (
                   SELECT FROM request r WHERE r.app_id = o.app_id AND r.send_id = o.send_id AND r.body IS NOT NULL
                 )
                 OR EXISTS (SELECT FROM parked p WHERE p.app_id = o.app_id AND p.send_id = o.send_id)
                 OR EXISTS (
                   SELECT FROM delivery d WHERE d.app_id = o.app_id AND d.send_id = o.send_id AND d.status = ANY($2)
                 ) AS is_needed
               FROM old o
             ), kept AS (
               UPDATE attachment a SET keep_until = now() + interval '1 hour' FROM judged j
               WHERE j.is_needed AND (a.app_id, a.send_id, a.number) = (j.app_id, j.send_id, j.number)
             ), removed AS (
               DELETE FROM attachment a USING judged j
               WHERE NOT j.is_needed AND (a.app_id, a.send_id, a.number) = (j.app_id, j.send_id, j.number)
             )
             SELECT count(*) AS "looked_at!", count(*) FILTER (WHERE NOT is_needed) AS "removed!" FROM judged"#,
            i64::from(most),
            &needed as &[&str]
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(Review { looked_at: reviewed.looked_at.unsigned_abs(), removed: reviewed.removed.unsigned_abs() })
    }
}

pub(crate) async fn remove(connection: &mut PgConnection, app: AppId, send_id: SendId) -> Result<(), Error> {
    sqlx::query!("DELETE FROM attachment WHERE app_id = $1 AND send_id = $2", app.0, send_id.0)
        .execute(connection)
        .await?;
    Ok(())
}
