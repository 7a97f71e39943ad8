//! Claims of messages that are due to be sent to endpoints. A process claims a message until its lease expires. Only the process with the
//! claim can settle the message.
//!
//! Messages are claimed for *call slots*. A slot makes one call at a time, to one endpoint, and its messages share a token. So the number
//! of running calls to an endpoint is at most the number of its tokens, however many messages a slot takes.
//!
//! Triggers (migration 0026) limit the number of rows that claiming reads. The index of due messages contains only the *head* of each
//! subject, which is its first pending message. The table `webhook_wake` lists the apps that may have due messages; claiming reads no other
//! app.

mod settle;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::database::columns::columns;
use crate::{Error, Webhooks};

pub use settle::Settlement;

/// Each row is one app.
const MAX_WAKES: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Must be longer than the time in which a slot starts its calls, plus the timeout of a call.
    pub lease: Duration,
    /// Maximum number of concurrent calls to one endpoint, across all processes.
    pub per_endpoint: u32,
    /// Maximum number of concurrent calls for one app, across all processes. Prevents an app with slow endpoints from delaying other apps.
    pub per_app: u32,
    /// Number of consecutive failures after which an endpoint gets only one call at a time, and a pause after each failed call.
    pub failures: u32,
    /// Length of the first pause. Each further consecutive failure doubles the pause.
    pub pause: Duration,
    pub longest_pause: Duration,
    /// Maximum number of messages that a call slot takes.
    pub per_slot: u32,
}

/// Number of messages that a call slot takes, by app and endpoint; 1 for other endpoints.
pub type Depths = HashMap<(AppId, i64), u32>;

#[derive(Debug)]
pub struct Target {
    pub url: String,
    /// Secrets, newest first, encrypted with the master key in the context `webhook-secret:{app}:{endpoint}`.
    pub sealed: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct DueMessage {
    pub app: AppId,
    pub endpoint: i64,
    /// The same in every attempt.
    pub id: Uuid,
    /// Messages that were claimed together share this value.
    pub target: Arc<Target>,
    /// JSON text.
    pub body: String,
    /// Starts at 1.
    pub attempt: u32,
    pub due_at: Timestamp,
    /// Identifies the claim. Messages of one call slot share it.
    pub token: Uuid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    Accepted,
    Retry {
        /// Time until the next attempt.
        after: Duration,
        /// Pause that the endpoint requested for all of its messages.
        pause: Option<Duration>,
    },
    /// The message is due as before, and this attempt does not count.
    NotSent,
    GivenUp,
    /// The message is given up, and the endpoint is disabled.
    EndpointGone,
}

impl Webhooks<'_> {
    /// Claims due messages for up to `most` call slots, and returns the messages of each slot. Claims only the first pending message of
    /// each subject. Apps are served in turn. If more slots could be filled, apps with fewer running calls come first, and among these the
    /// messages that have been due longest.
    pub async fn take_webhooks(
        self,
        most: u32,
        pace: Pace,
        depths: &Depths,
    ) -> Result<Vec<Vec<DueMessage>>, Error> {
        let mut transaction = self.0.begin().await?;
        force_index_scans(&mut transaction).await?;
        let apps = woken(&mut transaction, most.saturating_mul(2).min(MAX_WAKES)).await?;
        if apps.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = take(&mut transaction, &apps, most, pace, depths).await?;
        let targets = targets(&mut transaction, &rows).await?;
        transaction.commit().await?;
        rows.sort_unstable_by_key(|row| row.number);
        // The slots in the order of their first messages.
        let (mut slots, mut places) = (Vec::<Vec<DueMessage>>::new(), HashMap::new());
        for due in rows.into_iter().filter_map(|row| row.due(&targets)) {
            let place = *places.entry(due.token).or_insert(slots.len());
            match slots.get_mut(place) {
                Some(slot) => slot.push(due),
                None => slots.push(vec![due]),
            }
        }
        Ok(slots)
    }
}

/// PostgreSQL would choose query plans based on its statistics, which are missing in a new installation and outdated after a burst of
/// messages. The statements of this transaction are fast only with index scans.
async fn force_index_scans(transaction: &mut Transaction<'static, Postgres>) -> Result<(), Error> {
    sqlx::query!(
        "SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan, enable_bitmapscan, enable_sort,
           enable_hashjoin, enable_mergejoin, jit}'::text[]) AS name"
    )
    .fetch_all(&mut **transaction)
    .await?;
    Ok(())
}

/// Removes up to `most` due rows of `webhook_wake`, and locks their apps: until the transaction ends, no other process can claim their
/// messages, so the number of running calls is exact. Skips rows and apps that another process has locked.
async fn woken(connection: &mut PgConnection, most: u32) -> Result<Vec<i64>, Error> {
    let mut apps = sqlx::query_scalar!(
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
        i64::from(most)
    )
    .fetch_all(connection)
    .await?;
    apps.sort_unstable();
    apps.dedup();
    Ok(apps)
}

/// If an app has further due messages and is still below its limit on concurrent calls, the statement adds a row to `webhook_wake`, so that
/// the app is served again after the other apps.
async fn take(
    connection: &mut PgConnection,
    apps: &[i64],
    most: u32,
    pace: Pace,
    depths: &Depths,
) -> Result<Vec<TakenRow>, Error> {
    // Maximum number of slots per app. Twice `most` is divided equally among the apps, because some apps have only a few messages
    // to claim.
    let share = (2 * i64::from(most) / i64::try_from(apps.len()).unwrap_or(i64::MAX)).max(1);
    let depths: Vec<_> = depths.iter().filter(|((app, _), _)| apps.binary_search(&app.0).is_ok()).collect();
    columns! { ((app, endpoint), messages) in depths =>
        depth_app = app.0,
        depth_endpoint = *endpoint,
        depth = i64::from(**messages),
    }
    let rows = sqlx::query_file_as!(
        TakenRow,
        "src/webhooks/outgoing/claim.sql",
        i64::from(most),
        i64::from(pace.per_endpoint),
        i64::from(pace.failures),
        pace.lease.as_secs_f64(),
        i64::from(pace.per_app),
        apps,
        share,
        &depth_app,
        &depth_endpoint,
        &depth,
        i64::from(pace.per_slot.max(1))
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

async fn targets(
    connection: &mut PgConnection,
    messages: &[TakenRow],
) -> Result<HashMap<(i64, i64), Arc<Target>>, Error> {
    let endpoints: BTreeSet<_> = messages.iter().map(|row| (row.app_id, row.endpoint_id)).collect();
    if endpoints.is_empty() {
        return Ok(HashMap::new());
    }
    let (apps, ids): (Vec<i64>, Vec<i64>) = endpoints.into_iter().unzip();
    let rows = sqlx::query!(
        r#"SELECT e.app_id, e.id, e.url, (
             SELECT coalesce(array_agg(s.sealed ORDER BY s.id DESC), '{}') FROM webhook_secret s
             WHERE s.app_id = e.app_id AND s.endpoint_id = e.id AND (s.expires_at IS NULL OR s.expires_at > now())
           ) AS "sealed!"
           FROM unnest($1::bigint[], $2::bigint[]) AS asked (app_id, id) CROSS JOIN LATERAL (
             SELECT app_id, id, url FROM webhook_endpoint w WHERE w.app_id = asked.app_id AND w.id = asked.id LIMIT 1
           ) AS e"#,
        &apps,
        &ids
    )
    .fetch_all(connection)
    .await?;
    let target = |url, sealed| Arc::new(Target { url, sealed });
    Ok(rows.into_iter().map(|row| ((row.app_id, row.id), target(row.url, row.sealed))).collect())
}

struct TakenRow {
    app_id: i64,
    endpoint_id: i64,
    id: Uuid,
    number: i64,
    body: String,
    attempts: i32,
    due_at: DateTime<Utc>,
    token: Uuid,
}

impl TakenRow {
    /// None if the endpoint and its messages have just been removed.
    fn due(self, targets: &HashMap<(i64, i64), Arc<Target>>) -> Option<DueMessage> {
        let target = targets.get(&(self.app_id, self.endpoint_id))?;
        Some(DueMessage {
            app: AppId(self.app_id),
            endpoint: self.endpoint_id,
            id: self.id,
            target: Arc::clone(target),
            body: self.body,
            attempt: self.attempts.unsigned_abs(),
            due_at: self.due_at.into(),
            token: self.token,
        })
    }
}
