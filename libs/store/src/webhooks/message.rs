use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{Action, Actor, AppId, Timestamp};
use serde_json::json;
use uuid::Uuid;

use crate::database::audit::AuditEntry;
use crate::{Error, Webhooks};

const STEP: i64 = 1_000;
pub(super) const MAX_COUNTED: i64 = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    pub id: Uuid,
    pub endpoint: i64,
    pub url: String,
    pub event: String,
    pub created_at: Timestamp,
    pub given_up_at: Timestamp,
    pub attempts: u32,
    /// HTTP status of the last answer, such as `503`, or the error. Empty if no attempt was made.
    pub last_answer: String,
}

/// Times of the last messages that were removed. While a transaction is open, PostgreSQL keeps the index entries of removed messages, so the
/// next search starts here. Messages that were locked then are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneFrom {
    delivered: Option<DateTime<Utc>>,
    failed: Option<DateTime<Utc>>,
}

impl Webhooks<'_> {
    /// Skips messages that another transaction has locked.
    pub(super) async fn remove_messages(self, app: AppId, endpoint: i64) -> Result<(), Error> {
        loop {
            let removed = sqlx::query!(
                "DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
                   SELECT ctid FROM webhook_message WHERE app_id = $1 AND endpoint_id = $2
                   LIMIT $3 FOR UPDATE SKIP LOCKED
                 ))",
                app.0,
                endpoint,
                STEP
            )
            .execute(&self.0.pool)
            .await?;
            if removed.rows_affected() == 0 {
                return Ok(());
            }
        }
    }

    /// Lists messages that were given up, latest first.
    pub async fn failed_webhooks(
        self,
        app: AppId,
        endpoint: Option<i64>,
        most: u32,
    ) -> Result<Vec<FailedMessage>, Error> {
        let rows = sqlx::query!(
            r#"SELECT m.id, m.endpoint_id, e.url, m.event, m.created_at, m.settled_at AS "settled_at!", m.attempts,
                 coalesce(m.last_answer, '') AS "last_answer!"
               FROM webhook_message m JOIN webhook_endpoint e ON (e.app_id, e.id) = (m.app_id, m.endpoint_id)
               WHERE m.app_id = $1 AND m.status = 'failed' AND ($2::bigint IS NULL OR m.endpoint_id = $2)
               ORDER BY m.settled_at DESC, m.number DESC LIMIT $3"#,
            app.0,
            endpoint,
            i64::from(most)
        )
        .fetch_all(&self.0.pool)
        .await?;
        let messages = rows.into_iter().map(|row| FailedMessage {
            id: row.id,
            endpoint: row.endpoint_id,
            url: row.url,
            event: row.event,
            created_at: row.created_at.into(),
            given_up_at: row.settled_at.into(),
            attempts: row.attempts.unsigned_abs(),
            last_answer: row.last_answer,
        });
        Ok(messages.collect())
    }

    /// Schedules given-up messages to be sent again, and resets their numbers of attempts to 0. After an error, some messages may have been
    /// scheduled already.
    pub async fn redeliver_webhooks(
        self,
        app: AppId,
        endpoint: Option<i64>,
        ids: Option<&[Uuid]>,
        actor: &Actor,
    ) -> Result<u64, Error> {
        let subject = endpoint.map_or_else(|| "all endpoints".to_owned(), |endpoint| endpoint.to_string());
        let mut redelivered = 0;
        loop {
            let mut transaction = self.0.begin().await?;
            // One redelivery at a time: two of the same subject would both find it without a head.
            sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('webhook redelivery', $1))", app.0)
                .execute(&mut *transaction)
                .await?;
            let step = sqlx::query!(
                "UPDATE webhook_message m
                 SET status = 'pending', attempts = 0, next_at = now(), created_at = now(), settled_at = NULL
                 FROM (
                   SELECT app_id, endpoint_id, id FROM webhook_message
                   WHERE app_id = $1 AND status = 'failed' AND ($2::bigint IS NULL OR endpoint_id = $2)
                     AND ($3::uuid[] IS NULL OR id = ANY($3))
                   LIMIT $4
                 ) AS again
                 WHERE (m.app_id, m.endpoint_id, m.id) = (again.app_id, again.endpoint_id, again.id) AND m.status = 'failed'",
                app.0,
                endpoint,
                ids,
                STEP
            )
            .execute(&mut *transaction)
            .await?
            .rows_affected();
            if step > 0 {
                AuditEntry::new(app, actor, Action::WebhookRedeliver, &subject)
                    .changed(None, Some(json!({"messages": step})))
                    .write(&mut transaction)
                    .await?;
            }
            transaction.commit().await?;
            redelivered += step;
            if step < STEP.unsigned_abs() {
                return Ok(redelivered);
            }
        }
    }

    /// Gives up messages that are older than `age` if all calls to their endpoint have failed for longer than `age`. One call gives up at
    /// most 1,000 messages, and only the first pending message of each subject.
    pub async fn give_up_webhooks(self, age: Duration) -> Result<u64, Error> {
        let given_up = sqlx::query!(
            "WITH old AS MATERIALIZED (
               SELECT w.place FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT h.ctid AS place FROM webhook_message h
                 WHERE h.app_id = e.app_id AND h.endpoint_id = e.id AND h.head
                   AND h.created_at < now() - $1::float8 * interval '1 second'
                   AND (h.token IS NULL OR h.next_at <= now())
                 ORDER BY h.created_at LIMIT $2
               ) AS w
               WHERE e.failing_since < now() - $1::float8 * interval '1 second' LIMIT $2
             ), locked AS MATERIALIZED (
               SELECT ctid AS place FROM webhook_message
               WHERE ctid = ANY(ARRAY(SELECT place FROM old)) AND (token IS NULL OR next_at <= now())
               FOR UPDATE SKIP LOCKED
             )
             UPDATE webhook_message
             SET status = 'failed', settled_at = now(), token = NULL,
                 last_answer = coalesce(last_answer, 'the endpoint has failed all the while')
             WHERE ctid = ANY(ARRAY(SELECT place FROM locked))",
            age.as_secs_f64(),
            STEP
        )
        .execute(&self.0.pool)
        .await?;
        Ok(given_up.rows_affected())
    }

    /// Removes messages that were delivered more than `taken` ago, messages that were given up more than `given_up` ago, and messages for
    /// endpoints that were disabled more than `given_up` ago. One call removes up to 1,000 messages of each kind, and skips messages that
    /// were settled before `from`.
    pub async fn prune_webhooks(
        self,
        taken: Duration,
        given_up: Duration,
        from: &mut PruneFrom,
    ) -> Result<u64, Error> {
        let pool = &self.0.pool;
        let delivered = sqlx::query!(
            r#"WITH old AS MATERIALIZED (
                 SELECT ctid AS place, settled_at FROM webhook_message
                 WHERE settled_at IS NOT NULL AND status <> 'failed' AND settled_at >= coalesce($3::timestamptz, '-infinity')
                   AND settled_at < now() - $1::float8 * interval '1 second'
                 ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
               ), removed AS (
                 DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(SELECT place FROM old)) RETURNING 1
               )
               SELECT (SELECT count(*) FROM removed) AS "removed!", (SELECT max(settled_at) FROM old) AS up_to"#,
            taken.as_secs_f64(),
            STEP,
            from.delivered
        )
        .fetch_one(pool)
        .await?;
        from.delivered = delivered.up_to.or(from.delivered);
        let failed = sqlx::query!(
            r#"WITH old AS MATERIALIZED (
                 SELECT ctid AS place, settled_at FROM webhook_message
                 WHERE status = 'failed' AND settled_at >= coalesce($3::timestamptz, '-infinity')
                   AND settled_at < now() - $1::float8 * interval '1 second'
                 ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
               ), removed AS (
                 DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(SELECT place FROM old)) RETURNING 1
               )
               SELECT (SELECT count(*) FROM removed) AS "removed!", (SELECT max(settled_at) FROM old) AS up_to"#,
            given_up.as_secs_f64(),
            STEP,
            from.failed
        )
        .fetch_one(pool)
        .await?;
        from.failed = failed.up_to.or(from.failed);
        let disabled = sqlx::query!(
            "DELETE FROM webhook_message WHERE ctid = ANY(ARRAY(
               SELECT m.place FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT ctid AS place FROM webhook_message w
                 WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.head
                 ORDER BY w.next_at, w.number LIMIT $2 FOR UPDATE SKIP LOCKED
               ) AS m
               WHERE e.disabled_at < now() - $1::float8 * interval '1 second' LIMIT $2
             ))",
            given_up.as_secs_f64(),
            STEP
        )
        .execute(pool)
        .await?;
        Ok(delivered.removed.unsigned_abs() + failed.removed.unsigned_abs() + disabled.rows_affected())
    }

    /// Number of messages that wait to be sent to enabled endpoints, at most 100,000, and the age of the oldest, which is zero if no
    /// message waits.
    pub async fn pending_webhooks(self) -> Result<(u64, Duration), Error> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "pending!", coalesce(extract(epoch FROM now() - (
               SELECT min(oldest.created_at) FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT h.created_at FROM webhook_message h
                 WHERE h.app_id = e.app_id AND h.endpoint_id = e.id AND h.head ORDER BY h.created_at LIMIT 1
               ) AS oldest WHERE e.disabled_at IS NULL
             )), 0)::float8 AS "age!"
             FROM (
               SELECT FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT FROM webhook_message w
                 WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.settled_at IS NULL LIMIT $1
               ) AS m WHERE e.disabled_at IS NULL LIMIT $1
             ) AS waiting"#,
            MAX_COUNTED
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok((row.pending.unsigned_abs(), Duration::from_secs_f64(row.age.max(0.0))))
    }
}
