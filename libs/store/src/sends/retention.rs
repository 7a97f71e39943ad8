//! Removal of sends that are older than the retention.
//!
//! A send is removed in steps of limited size, and its request last. If a step fails, the next round finds the send again. A step locks
//! requests before deliveries, as every transaction does that locks both. It skips rows that another transaction has locked.

use std::time::Duration;

use domain::{AppId, SendId, Timestamp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::instant::instant;
use crate::{Error, Sends};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgedApp {
    pub app: AppId,
    /// Sends that were due before this time are older than the retention.
    pub before: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub struct Aged {
    /// Time before which the send was due: its `sendAt`, or its acceptance if it has none.
    pub before: Timestamp,
    /// Time before which the send's last delivery ended and its last chunk was planned. Until then the log may still contain their events,
    /// and a receipt may still arrive.
    pub ended_before: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedRows {
    pub sends: u64,
    pub deliveries: u64,
    /// Rows of plans, one for each recipient.
    pub recipients: u64,
}

impl RemovedRows {
    #[must_use]
    pub fn is_none(self) -> bool {
        self == RemovedRows::default()
    }
}

impl Sends<'_> {
    /// The retention is `keep`, or the app's own if that is shorter, but at least `least`.
    pub async fn apps_with_old_sends(
        self,
        now: Timestamp,
        keep: Duration,
        least: Duration,
    ) -> Result<Vec<AgedApp>, Error> {
        let rows = sqlx::query!(
            r#"SELECT a.id, bound.at AS "at!" FROM app a CROSS JOIN LATERAL (
                 SELECT $1::timestamptz - greatest($3::float8, least($2::float8, a.keep_sends * 86400.0)) * interval '1 second' AS at
               ) AS bound
               WHERE EXISTS (
                 SELECT FROM request r WHERE r.app_id = a.id AND r.send_id < send_id_at(bound.at)
               ) ORDER BY a.id"#,
            instant(now),
            keep.as_secs_f64(),
            least.as_secs_f64()
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(|row| AgedApp { app: AppId(row.id), before: row.at.into() }).collect())
    }

    /// Looks at up to `most` sends of the app after `after`, and at fewer if they have more than `recipients` recipients together. A send
    /// may be removed if all its recipients are planned, all its deliveries have ended, and no message of it waits as a timer or is parked.
    /// The second value is the last send that was looked at; None if no further send is left.
    pub async fn removable_sends(
        self,
        app: AppId,
        aged: Aged,
        after: SendId,
        most: u32,
        recipients: u32,
    ) -> Result<(Vec<SendId>, Option<SendId>), Error> {
        let rows = sqlx::query!(
            r#"SELECT r.send_id, (
                 r.body IS NULL AND coalesce(r.send_at, r.accepted_at) < $4 AND coalesce(r.cancelled_at < $5, true)
                 AND NOT EXISTS (
                   SELECT FROM plan n WHERE n.app_id = r.app_id AND n.send_id = r.send_id AND n.planned_at >= $5
                 )
                 AND NOT EXISTS (SELECT FROM timer t WHERE t.app_id = r.app_id AND t.send_id = r.send_id)
                 AND NOT EXISTS (SELECT FROM parked p WHERE p.app_id = r.app_id AND p.send_id = r.send_id)
                 AND NOT EXISTS (
                   SELECT FROM delivery d WHERE d.app_id = r.app_id AND d.send_id = r.send_id
                     AND (d.status IN ('queued', 'sending', 'retrying', 'parked') OR d.settled_at >= $5)
                 )
               ) AS "is_removable!"
               FROM (
                 SELECT *, sum(recipients) OVER (ORDER BY send_id) - recipients AS before FROM (
                   SELECT * FROM request WHERE app_id = $1 AND send_id > $2 AND send_id < send_id_at($4)
                   ORDER BY send_id LIMIT $3
                 ) AS next
               ) AS r WHERE r.before < $6 ORDER BY r.send_id"#,
            app.0,
            after.0,
            i64::from(most),
            instant(aged.before),
            instant(aged.ended_before),
            i64::from(recipients)
        )
        .fetch_all(&self.0.pool)
        .await?;
        let last = rows.last().map(|row| SendId(row.send_id));
        let removable = rows.into_iter().filter(|row| row.is_removable).map(|row| SendId(row.send_id));
        Ok((removable.collect(), last))
    }

    /// Removes up to `most` deliveries with their attempts, and up to `most` rows of the plans, of sends that [`Sends::removable_sends`]
    /// returned, and the requests of which nothing else is left. The caller repeats the call until it removes nothing. A delivery that is
    /// locked, or that is no longer ended, stays, and so does its request.
    pub async fn remove_sends(self, app: AppId, sends: &[SendId], most: u32) -> Result<RemovedRows, Error> {
        let sends: Vec<Uuid> = sends.iter().map(|send| send.0).collect();
        let mut transaction = self.0.begin().await?;
        let sends = sqlx::query_scalar!(
            "SELECT r.send_id FROM unnest($2::uuid[]) AS old (send_id) CROSS JOIN LATERAL (
               SELECT w.send_id FROM request w WHERE w.app_id = $1 AND w.send_id = old.send_id LIMIT 1 FOR UPDATE SKIP LOCKED
             ) AS r",
            app.0,
            &sends
        )
        .fetch_all(&mut *transaction)
        .await?;
        let deliveries = remove_deliveries(&mut transaction, app, &sends, most).await?;
        let recipients = remove_recipients(&mut transaction, app, &sends, most).await?;
        let sends = remove_requests(&mut transaction, app, &sends).await?;
        transaction.commit().await?;
        Ok(RemovedRows { sends, deliveries, recipients })
    }
}

async fn remove_deliveries(
    connection: &mut PgConnection,
    app: AppId,
    sends: &[Uuid],
    most: u32,
) -> Result<u64, Error> {
    let removed = sqlx::query_scalar!(
        "WITH old AS MATERIALIZED (
           SELECT d.place, d.id, d.user_number FROM unnest($2::uuid[]) AS old (send_id) CROSS JOIN LATERAL (
             SELECT w.ctid AS place, w.id, w.user_number FROM delivery w
             WHERE w.app_id = $1 AND w.send_id = old.send_id AND w.status NOT IN ('queued', 'sending', 'retrying', 'parked')
             ORDER BY w.recipient_index LIMIT $3 FOR UPDATE SKIP LOCKED
           ) AS d LIMIT $3
         ), suppressed AS (
           UPDATE suppression s SET user_number = old.user_number FROM old WHERE s.app_id = $1 AND s.delivery_id = old.id
         )
         DELETE FROM delivery WHERE ctid = ANY(ARRAY(SELECT place FROM old)) RETURNING id",
        app.0,
        sends,
        i64::from(most)
    )
    .fetch_all(&mut *connection)
    .await?;
    if removed.is_empty() {
        return Ok(0);
    }
    sqlx::query!(
        "WITH receipts AS (DELETE FROM awaiting_receipt WHERE app_id = $1 AND delivery_id = ANY($2))
         DELETE FROM attempt WHERE app_id = $1 AND delivery_id = ANY($2)",
        app.0,
        &removed
    )
    .execute(connection)
    .await?;
    Ok(removed.len() as u64)
}

async fn remove_recipients(
    connection: &mut PgConnection,
    app: AppId,
    sends: &[Uuid],
    most: u32,
) -> Result<u64, Error> {
    let removed = sqlx::query!(
        "DELETE FROM planned_recipient WHERE ctid = ANY(ARRAY(
           SELECT r.place FROM unnest($2::uuid[]) AS old (send_id) CROSS JOIN LATERAL (
             SELECT w.ctid AS place FROM planned_recipient w WHERE w.app_id = $1 AND w.send_id = old.send_id
             ORDER BY w.recipient_index LIMIT $3 FOR UPDATE SKIP LOCKED
           ) AS r LIMIT $3
         ))",
        app.0,
        sends,
        i64::from(most)
    )
    .execute(connection)
    .await?;
    Ok(removed.rows_affected())
}

async fn remove_requests(connection: &mut PgConnection, app: AppId, sends: &[Uuid]) -> Result<u64, Error> {
    let empty = sqlx::query_scalar!(
        r#"SELECT old.send_id AS "send_id!" FROM unnest($2::uuid[]) AS old (send_id)
         WHERE NOT EXISTS (SELECT FROM delivery d WHERE d.app_id = $1 AND d.send_id = old.send_id)
           AND NOT EXISTS (SELECT FROM planned_recipient p WHERE p.app_id = $1 AND p.send_id = old.send_id)"#,
        app.0,
        sends
    )
    .fetch_all(&mut *connection)
    .await?;
    let removed = sqlx::query!(
        "WITH plans AS (DELETE FROM plan WHERE app_id = $1 AND send_id = ANY($2))
         DELETE FROM request WHERE app_id = $1 AND send_id = ANY($2)",
        app.0,
        &empty
    )
    .execute(connection)
    .await?;
    Ok(removed.rows_affected())
}
