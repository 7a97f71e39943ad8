//! Sending messages to endpoints. A process claims a message for the time of a lease, and only the process with the claim
//! can settle it.
//!
//! Triggers (migration 0026) maintain two structures that limit the rows to read. The index of due messages contains only
//! the *head*, the first pending message, of each subject. The table `webhook_wake` lists the apps that may have due
//! messages, so that the other apps are not read.

mod settle;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::AppId;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Postgres, Row, Transaction};
use uuid::Uuid;

use crate::{Error, Webhooks};

pub use settle::Settlement;

/// Maximum number of rows of `webhook_wake`, and thus of apps, that one call reads.
const MAX_WAKES: u32 = 64;

/// Limits on calls to endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Duration of a claim on a message; must be longer than the timeout of a call.
    pub lease: Duration,
    /// Maximum number of concurrent calls to one endpoint, over all processes.
    pub per_endpoint: u32,
    /// Maximum number of concurrent calls for one app, over all processes, so that a slow app does not delay the others.
    pub per_app: u32,
    /// Number of consecutive failures from which on an endpoint gets only one call at a time, with a pause after each
    /// failure.
    pub failures: u32,
    /// The first pause; each further consecutive failure doubles it.
    pub pause: Duration,
    pub longest_pause: Duration,
}

/// The endpoint of claimed messages.
#[derive(Debug)]
pub struct Target {
    pub url: String,
    /// Secrets that sign the calls, newest first, sealed in the context `webhook-secret:{app}:{endpoint}`.
    pub sealed: Vec<Vec<u8>>,
}

/// A claimed message to send now.
#[derive(Clone, Debug)]
pub struct Due {
    pub app: AppId,
    /// Number of the endpoint.
    pub endpoint: i64,
    /// The message's id, the same in every attempt.
    pub id: Uuid,
    /// The endpoint; messages claimed together share it.
    pub target: Arc<Target>,
    /// Body of the call, as JSON text.
    pub body: String,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Identifies the claim.
    pub token: Uuid,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The endpoint accepted the message.
    Taken,
    /// The attempt failed, and the message will be retried.
    Again {
        /// Time until the next attempt.
        after: Duration,
        /// Pause that the endpoint requested, if any; applies to all messages of the endpoint.
        pause: Option<Duration>,
    },
    /// The attempt failed, and the message is given up.
    GivenUp,
    /// The endpoint reported that it is permanently gone: the message is given up, and the endpoint is disabled.
    Gone,
}

impl Webhooks<'_> {
    /// Claims up to `most` due messages: only the first message of each subject, and within the limits on concurrent calls
    /// per endpoint and app. Apps are served round-robin. Within one call, apps with fewer running calls have priority,
    /// then the messages that have been due for longest.
    pub async fn take_webhooks(self, most: u32, pace: Pace) -> Result<Vec<Due>, Error> {
        let mut transaction = self.0.begin().await?;
        force_index_scans(&mut transaction).await?;
        let apps = woken(&mut transaction, most.saturating_mul(2).min(MAX_WAKES)).await?;
        if apps.is_empty() {
            return Ok(Vec::new());
        }
        let rows = take(&mut transaction, &apps, most, pace).await?;
        let targets = targets(&mut transaction, &rows).await?;
        let due = rows.iter().filter_map(|row| read_due(row, &targets).transpose()).collect();
        transaction.commit().await?;
        due
    }
}

/// Forces index scans and nested loops for this transaction, for which its statements are written. Statistics are missing
/// in a new installation and outdated after a burst, so query plans must not depend on them.
async fn force_index_scans(transaction: &mut Transaction<'static, Postgres>) -> Result<(), Error> {
    sqlx::query(
        "SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan, enable_bitmapscan, enable_sort,
           enable_hashjoin, enable_mergejoin, jit}'::text[]) AS name",
    )
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// Removes up to `most` due rows of `webhook_wake`, and returns their apps. Until the transaction ends, no other process
/// can claim messages of these apps, so that running calls are counted exactly. Rows of apps that another process has
/// locked stay.
async fn woken(connection: &mut PgConnection, most: u32) -> Result<Vec<i64>, Error> {
    let mut apps: Vec<i64> = sqlx::query_scalar(
        "WITH woken AS MATERIALIZED (
           SELECT ctid AS place, app_id FROM webhook_wake WHERE at <= now() ORDER BY at LIMIT $1
           FOR UPDATE SKIP LOCKED
         ), mine AS MATERIALIZED (
           SELECT app_id FROM (SELECT DISTINCT app_id FROM woken) AS apps
           WHERE pg_try_advisory_xact_lock(hashtextextended('webhooks', app_id))
         )
         DELETE FROM webhook_wake
         WHERE ctid = ANY(ARRAY(SELECT place FROM woken WHERE app_id IN (SELECT app_id FROM mine)))
         RETURNING app_id",
    )
    .bind(i64::from(most))
    .fetch_all(connection)
    .await?;
    apps.sort_unstable();
    apps.dedup();
    Ok(apps)
}

/// Claims due messages of these apps. If an app has more due messages than were claimed and may have more calls, a new row
/// in `webhook_wake` queues the app again behind the others.
async fn take(
    connection: &mut PgConnection,
    apps: &[i64],
    most: u32,
    pace: Pace,
) -> Result<Vec<PgRow>, Error> {
    // Maximum number of messages per app: twice an equal share of `most`, so that apps can use the share of apps with few
    // messages.
    let share = (2 * i64::from(most) / i64::try_from(apps.len()).unwrap_or(i64::MAX)).max(1);
    let rows = sqlx::query(
        "WITH endpoint AS MATERIALIZED (
           SELECT e.app_id, e.id, calls.number AS calls,
             CASE WHEN e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())
                  THEN greatest(0, CASE WHEN e.failures >= $3 THEN 1 ELSE $2 END - calls.number) ELSE 0 END AS room
           FROM unnest($6::bigint[]) AS asked (app_id) CROSS JOIN LATERAL (
             SELECT * FROM webhook_endpoint WHERE app_id = asked.app_id ORDER BY id LIMIT 1000
           ) AS e CROSS JOIN LATERAL (
             SELECT count(*) AS number FROM (
               SELECT FROM webhook_message u
               WHERE u.app_id = e.app_id AND u.endpoint_id = e.id AND u.token IS NOT NULL AND u.next_at > now()
               ORDER BY u.next_at LIMIT $5
             ) AS under_way
           ) AS calls
         ), app AS MATERIALIZED (
           SELECT app_id, sum(calls) AS calls, $5 - sum(calls) AS room FROM endpoint GROUP BY app_id
         ), waiting AS MATERIALIZED (
           SELECT app.app_id, app.calls, app.room, m.place, m.next_at, m.number
           FROM app JOIN endpoint USING (app_id) CROSS JOIN LATERAL (
             SELECT w.ctid AS place, w.next_at, w.number FROM webhook_message w
             WHERE w.app_id = endpoint.app_id AND w.endpoint_id = endpoint.id AND w.head AND w.next_at <= now()
             ORDER BY w.next_at, w.number LIMIT greatest(0, least(endpoint.room, app.room, $7 + 1))
           ) AS m
         ), ranked AS MATERIALIZED (
           SELECT *, row_number() OVER (PARTITION BY app_id ORDER BY next_at, number) AS rank FROM waiting
         ), chosen AS MATERIALIZED (
           SELECT place FROM ranked WHERE rank <= least(room, $7) ORDER BY calls + rank, next_at, number LIMIT $1
         ), locked AS MATERIALIZED (
           -- Said again, as another transaction may have changed or locked it since; but not so that an index of heads would do.
           SELECT ctid AS place FROM webhook_message
           WHERE ctid = ANY(ARRAY(SELECT place FROM chosen)) AND coalesce(head, false) AND next_at <= now()
           FOR UPDATE SKIP LOCKED
         ), woken AS (
           INSERT INTO webhook_wake (app_id, at)
           SELECT DISTINCT app_id, now() FROM ranked
           WHERE rank <= room AND NOT EXISTS (SELECT FROM locked WHERE locked.place = ranked.place)
         )
         UPDATE webhook_message
         SET token = gen_random_uuid(), attempts = attempts + 1, next_at = now() + $4::float8 * interval '1 second'
         WHERE ctid = ANY(ARRAY(SELECT place FROM locked))
         RETURNING app_id, endpoint_id, id, body, attempts, token",
    )
    .bind(i64::from(most))
    .bind(i64::from(pace.per_endpoint))
    .bind(i64::from(pace.failures))
    .bind(pace.lease.as_secs_f64())
    .bind(i64::from(pace.per_app))
    .bind(apps)
    .bind(share)
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

/// Reads the URL and the secrets of each endpoint of these messages.
async fn targets(
    connection: &mut PgConnection,
    messages: &[PgRow],
) -> Result<HashMap<(i64, i64), Arc<Target>>, Error> {
    let mut endpoints: Vec<(i64, i64)> = messages
        .iter()
        .map(|row| Ok((row.try_get("app_id")?, row.try_get("endpoint_id")?)))
        .collect::<Result<_, sqlx::Error>>()?;
    endpoints.sort_unstable();
    endpoints.dedup();
    if endpoints.is_empty() {
        return Ok(HashMap::new());
    }
    let (apps, ids): (Vec<i64>, Vec<i64>) = endpoints.into_iter().unzip();
    let rows: Vec<(i64, i64, String, Vec<Vec<u8>>)> = sqlx::query_as(
        "SELECT e.app_id, e.id, e.url, (
           SELECT coalesce(array_agg(s.sealed ORDER BY s.id DESC), '{}') FROM webhook_secret s
           WHERE s.app_id = e.app_id AND s.endpoint_id = e.id AND (s.expires_at IS NULL OR s.expires_at > now())
         )
         FROM unnest($1::bigint[], $2::bigint[]) AS asked (app_id, id) CROSS JOIN LATERAL (
           SELECT app_id, id, url FROM webhook_endpoint w WHERE w.app_id = asked.app_id AND w.id = asked.id LIMIT 1
         ) AS e",
    )
    .bind(apps)
    .bind(ids)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(app, id, url, sealed)| ((app, id), Arc::new(Target { url, sealed }))).collect())
}

/// Reads a claimed message; None if its endpoint, and so the message, has just been removed.
fn read_due(row: &PgRow, targets: &HashMap<(i64, i64), Arc<Target>>) -> Result<Option<Due>, Error> {
    let app = row.try_get("app_id")?;
    let endpoint = row.try_get("endpoint_id")?;
    let Some(target) = targets.get(&(app, endpoint)) else { return Ok(None) };
    let attempts: i32 = row.try_get("attempts")?;
    Ok(Some(Due {
        app: AppId(app),
        endpoint,
        id: row.try_get("id")?,
        target: Arc::clone(target),
        body: row.try_get("body")?,
        attempt: attempts.unsigned_abs(),
        token: row.try_get("token")?,
    }))
}
