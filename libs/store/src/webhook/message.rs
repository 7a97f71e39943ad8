//! Messages that are done: shown, told again, removed in the end.

use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::Row;
use uuid::Uuid;

use crate::{Error, Store};

/// Rows that one statement changes at most.
const STEP: i64 = 1_000;

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its id.
    pub id: Uuid,
    /// Number of the endpoint.
    pub endpoint: i64,
    /// Where it was to go.
    pub url: String,
    /// What it tells.
    pub event: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was given up.
    pub given_up_at: Timestamp,
    /// Attempts that were made.
    pub attempts: u32,
    /// The last answer, such as `503`, or what went wrong.
    pub last_answer: String,
}

impl Store {
    /// Up to `most` messages of the app that were given up, the latest first; those of one endpoint, where it is named.
    ///
    /// # Errors
    /// The database failed.
    pub async fn failed_webhooks(
        &self,
        app: AppId,
        endpoint: Option<i64>,
        most: u32,
    ) -> Result<Vec<FailedMessage>, Error> {
        sqlx::query(
            "SELECT m.id, m.endpoint_id, e.url, m.event, m.created_at, m.settled_at, m.attempts,
               coalesce(m.last_answer, '') AS last_answer
             FROM webhook_message m JOIN webhook_endpoint e ON (e.app_id, e.id) = (m.app_id, m.endpoint_id)
             WHERE m.app_id = $1 AND m.status = 'failed' AND ($2::bigint IS NULL OR m.endpoint_id = $2)
             ORDER BY m.settled_at DESC, m.number DESC LIMIT $3",
        )
        .bind(app.0)
        .bind(endpoint)
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(|row| {
            Ok(FailedMessage {
                id: row.try_get("id")?,
                endpoint: row.try_get("endpoint_id")?,
                url: row.try_get("url")?,
                event: row.try_get("event")?,
                created_at: row.try_get::<DateTime<Utc>, _>("created_at")?.into(),
                given_up_at: row.try_get::<DateTime<Utc>, _>("settled_at")?.into(),
                attempts: row.try_get::<i32, _>("attempts")?.unsigned_abs(),
                last_answer: row.try_get("last_answer")?,
            })
        })
        .collect()
    }

    /// Has messages that were given up told again, from their first attempt on: these, or all; those of one endpoint,
    /// where it is named. Returns how many there were.
    ///
    /// # Errors
    /// The database failed; some may be told again.
    pub async fn redeliver_webhooks(
        &self,
        app: AppId,
        endpoint: Option<i64>,
        ids: Option<&[Uuid]>,
    ) -> Result<u64, Error> {
        let mut redelivered = 0;
        loop {
            let step = sqlx::query(
                "UPDATE webhook_message m
                 SET status = 'pending', attempts = 0, next_at = now(), created_at = now(), settled_at = NULL
                 FROM (
                   SELECT app_id, endpoint_id, id FROM webhook_message
                   WHERE app_id = $1 AND status = 'failed' AND ($2::bigint IS NULL OR endpoint_id = $2)
                     AND ($3::uuid[] IS NULL OR id = ANY($3))
                   LIMIT $4
                 ) AS again WHERE (m.app_id, m.endpoint_id, m.id) = (again.app_id, again.endpoint_id, again.id)",
            )
            .bind(app.0)
            .bind(endpoint)
            .bind(ids)
            .bind(STEP)
            .execute(&self.pool)
            .await?
            .rows_affected();
            redelivered += step;
            if step < STEP.unsigned_abs() {
                return Ok(redelivered);
            }
        }
    }

    /// Gives up what is older than `age` and meant for an endpoint that has failed for as long. Returns how many.
    ///
    /// # Errors
    /// The database failed.
    pub async fn give_up_webhooks(&self, age: Duration) -> Result<u64, Error> {
        let given_up = sqlx::query(
            "UPDATE webhook_message m
             SET status = 'failed', settled_at = now(), token = NULL,
                 last_answer = coalesce(m.last_answer, 'the endpoint has failed all the while')
             FROM (
               SELECT w.app_id, w.endpoint_id, w.id
               FROM webhook_message w JOIN webhook_endpoint e ON (e.app_id, e.id) = (w.app_id, w.endpoint_id)
               WHERE w.status = 'pending' AND w.created_at < now() - $1::float8 * interval '1 second'
                 AND e.failing_since < now() - $1::float8 * interval '1 second'
                 AND (w.token IS NULL OR w.next_at <= now())
               LIMIT $2 FOR UPDATE OF w SKIP LOCKED
             ) AS old WHERE (m.app_id, m.endpoint_id, m.id) = (old.app_id, old.endpoint_id, old.id)",
        )
        .bind(age.as_secs_f64())
        .bind(STEP)
        .execute(&self.pool)
        .await?;
        Ok(given_up.rows_affected())
    }

    /// Removes up to 1,000 messages that were taken before `taken` or given up before `given_up`, or wait as long as
    /// that for an endpoint that is turned off. Returns how many.
    ///
    /// # Errors
    /// The database failed.
    pub async fn prune_webhooks(&self, taken: Duration, given_up: Duration) -> Result<u64, Error> {
        let removed = sqlx::query(
            "DELETE FROM webhook_message WHERE (app_id, endpoint_id, id) IN (
               SELECT app_id, endpoint_id, id FROM webhook_message
               WHERE settled_at < now() - interval '1 second' *
                 CASE WHEN status = 'failed' THEN $2::float8 ELSE $1::float8 END
               UNION ALL
               SELECT m.app_id, m.endpoint_id, m.id
               FROM webhook_endpoint e JOIN webhook_message m ON (m.app_id, m.endpoint_id) = (e.app_id, e.id)
               WHERE e.disabled_at < now() - $2::float8 * interval '1 second' AND m.status = 'pending'
               LIMIT $3
             )",
        )
        .bind(taken.as_secs_f64())
        .bind(given_up.as_secs_f64())
        .bind(STEP)
        .execute(&self.pool)
        .await?;
        Ok(removed.rows_affected())
    }

    /// How many messages are to be told, of endpoints that are turned on, and how long the oldest waits.
    ///
    /// # Errors
    /// The database failed.
    pub async fn pending_webhooks(&self) -> Result<(u64, Duration), Error> {
        let row = sqlx::query(
            "SELECT count(*) AS pending, coalesce(extract(epoch FROM now() - min(m.created_at)), 0)::float8 AS age
             FROM webhook_message m JOIN webhook_endpoint e ON (e.app_id, e.id) = (m.app_id, m.endpoint_id)
             WHERE m.status = 'pending' AND e.disabled_at IS NULL",
        )
        .fetch_one(&self.pool)
        .await?;
        let (pending, age): (i64, f64) = (row.try_get("pending")?, row.try_get("age")?);
        Ok((pending.unsigned_abs(), Duration::from_secs_f64(age.max(0.0))))
    }
}
