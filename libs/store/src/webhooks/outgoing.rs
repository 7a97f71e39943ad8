//! Claims of messages that are due to be sent to endpoints. A process claims a message until its lease expires. Only the process with the
//! claim can settle the message.
//!
//! Messages are claimed for *call slots*. A slot makes one call at a time, to one endpoint, and its messages share a token. So the number
//! of running calls to an endpoint is at most the number of its tokens, however many messages a slot takes.
//!
//! Triggers (migration 0026) limit the number of rows that claiming reads. The index of due messages contains only the *head* of each
//! subject, which is its first pending message. The table `webhook_wake` lists the apps that may have due messages; claiming reads no other
//! app.

mod behind;
mod search;
mod settle;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::{AppId, Timestamp};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::connection::answered;
use crate::{Error, Webhooks};

pub use behind::Behind;
use search::Known;
pub use search::Search;
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
        self.take_webhooks_from(most, pace, depths, &mut Search::default()).await
    }

    /// Like [`take_webhooks`](Self::take_webhooks), but reads from the positions of the process's earlier searches. What they pass over is
    /// found by [`look_behind`](Self::look_behind).
    pub async fn take_webhooks_from(
        self,
        most: u32,
        pace: Pace,
        depths: &Depths,
        search: &mut Search,
    ) -> Result<Vec<Vec<DueMessage>>, Error> {
        answered(self.claim(most, pace, depths, search)).await
    }

    /// Wakes apps, so that the next search of any process asks for them.
    pub async fn wake_apps(self, apps: &[AppId]) -> Result<(), Error> {
        let apps: Vec<i64> = apps.iter().map(|app| app.0).collect();
        sqlx::query!(
            "INSERT INTO webhook_wake (app_id, at) SELECT app_id, now() FROM unnest($1::bigint[]) AS app (app_id)",
            &apps
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Wakes each app that has an endpoint. A process that was killed may have removed the wakes of messages that it had not found.
    pub async fn wake_all_apps(self) -> Result<(), Error> {
        sqlx::query!("INSERT INTO webhook_wake (app_id, at) SELECT DISTINCT app_id, now() FROM webhook_endpoint WHERE disabled_at IS NULL")
            .execute(&self.0.pool)
            .await?;
        Ok(())
    }

    async fn claim(
        self,
        most: u32,
        pace: Pace,
        depths: &Depths,
        search: &mut Search,
    ) -> Result<Vec<Vec<DueMessage>>, Error> {
        let mut transaction = self.0.begin().await?;
        let now = force_index_scans(&mut transaction).await?;
        let at = search.begin();
        let (from, left_out) = search.wakes_from((at, now));
        let most_wakes = most.saturating_mul(2).min(MAX_WAKES);
        let woken = woken(&mut transaction, most_wakes, from, (&left_out, &search.found())).await?;
        let ended = search.now();
        let known = search.known(&woken.apps, depths);
        let (mut rows, mut read) = (Vec::new(), Vec::new());
        let taken = take(&mut transaction, &woken.apps, most, pace, &known).await;
        for row in taken.inspect_err(|_| search.note_failed(&woken.apps, &known))? {
            match row.taken() {
                Ok(message) => rows.push(message),
                Err(endpoint) => read.push(endpoint),
            }
        }
        let targets = targets(&mut transaction, &rows).await?;
        search.note_asked(&known, &read);
        transaction.commit().await?;
        search.note_wakes((at, ended), (from, now), &woken);
        search.note(read);
        rows.sort_unstable_by_key(|row| row.number);
        // The slots in the order of their first messages.
        let (mut slots, mut places) = (Vec::<Vec<DueMessage>>::new(), HashMap::new());
        for due in rows.into_iter().filter_map(|row| row.due(&targets)) {
            search.note_slot(&due);
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
/// messages. The statements of this transaction are fast only with index scans. Returns the time of the transaction.
async fn force_index_scans(transaction: &mut Transaction<'static, Postgres>) -> Result<DateTime<Utc>, Error> {
    let now = sqlx::query_scalar!(
        r#"SELECT now() AS "now!" FROM (
           SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan, enable_bitmapscan, enable_sort,
             enable_hashjoin, enable_mergejoin, jit}'::text[]) AS name OFFSET 0
         ) AS set HAVING count(set_config) > 0"#
    )
    .fetch_one(&mut **transaction)
    .await?;
    Ok(now)
}

/// Result of a search of wakes.
#[derive(Debug, Default)]
struct Woken {
    apps: Vec<i64>,
    /// Apps with wakes that another process has locked.
    held: Vec<i64>,
    /// Time from which further rows may be due. None if nothing was left.
    from: Option<DateTime<Utc>>,
    /// As many rows were found as were looked for.
    has_more: bool,
}

/// Removes up to `most` rows of `webhook_wake` that became due at `from` or later, and locks their apps and those that were found behind
/// positions: until the transaction ends, no other process can claim their messages, so the number of running calls is exact. Skips rows that
/// another process has locked, the apps that are left out, and those that another process has locked.
async fn woken(
    connection: &mut PgConnection,
    most: u32,
    from: Option<DateTime<Utc>>,
    (left_out, found): (&[i64], &[i64]),
) -> Result<Woken, Error> {
    let rows = sqlx::query!(
        r#"WITH woken AS MATERIALIZED (
           SELECT ctid AS place, app_id, at FROM webhook_wake
           WHERE at <= now() AND at >= least(coalesce($2::timestamptz, '-infinity'), now() - interval '250 milliseconds')
             AND app_id <> ALL($3)
           ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED
         ), mine AS MATERIALIZED (
           SELECT app_id FROM (SELECT app_id FROM woken UNION SELECT unnest($4::bigint[])) AS apps (app_id)
           WHERE pg_try_advisory_xact_lock(hashtextextended('webhooks', app_id))
         ), removed AS (
           DELETE FROM webhook_wake
           WHERE ctid = ANY(ARRAY(SELECT place FROM woken WHERE app_id IN (SELECT app_id FROM mine)))
         )
         SELECT app_id AS "app_id!", app_id IN (SELECT app_id FROM mine) AS "is_mine!", min(at) AS first, max(at) AS last,
           (SELECT count(*) FROM woken) AS "rows!"
         FROM (SELECT app_id, at FROM woken UNION ALL SELECT app_id, NULL FROM mine) AS apps
         GROUP BY app_id ORDER BY app_id"#,
        i64::from(most),
        from,
        left_out,
        found
    )
    .fetch_all(connection)
    .await?;
    let has_more = rows.first().is_some_and(|row| row.rows >= i64::from(most));
    let last = rows.iter().filter_map(|row| row.last).max().filter(|_| has_more);
    let (mine, of_others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_mine);
    // The wakes of the apps that this search leaves out are not looked at before the next one.
    let from = if left_out.is_empty() { None } else { from };
    Ok(Woken {
        from: of_others.iter().filter_map(|row| row.first).chain(last).chain(from).min(),
        held: of_others.iter().map(|row| row.app_id).collect(),
        apps: mine.into_iter().map(|row| row.app_id).collect(),
        has_more,
    })
}

/// If an app has further due messages and is still below its limit on concurrent calls, the statement adds a row to `webhook_wake`, so that
/// the app is served again after the other apps.
async fn take(
    connection: &mut PgConnection,
    apps: &[i64],
    most: u32,
    pace: Pace,
    known: &[Known],
) -> Result<Vec<ReadRow>, Error> {
    if apps.is_empty() {
        return Ok(Vec::new());
    }
    // Maximum number of slots per app. Twice `most` is divided equally among the apps, because some apps have only a few messages
    // to claim.
    let share = (2 * i64::from(most) / i64::try_from(apps.len()).unwrap_or(i64::MAX)).max(1);
    columns! { endpoint in known =>
        app = endpoint.app,
        id = endpoint.endpoint,
        depth = i64::from(endpoint.depth),
        due_from = endpoint.due_from,
        claimed_from = endpoint.claimed_from,
    }
    let rows = sqlx::query_file_as!(
        ReadRow,
        "src/webhooks/outgoing/claim.sql",
        i64::from(most),
        i64::from(pace.per_endpoint),
        i64::from(pace.failures),
        pace.lease.as_secs_f64(),
        i64::from(pace.per_app),
        apps,
        share,
        &app,
        &id,
        &depth,
        i64::from(pace.per_slot.max(1)),
        &due_from as &[Option<DateTime<Utc>>],
        &claimed_from as &[Option<DateTime<Utc>>]
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

/// A claimed message, or the positions of an endpoint.
struct ReadRow {
    app_id: i64,
    endpoint_id: i64,
    id: Option<Uuid>,
    number: Option<i64>,
    body: Option<String>,
    attempts: Option<i32>,
    due_at: Option<DateTime<Utc>>,
    token: Option<Uuid>,
    due_from: Option<DateTime<Utc>>,
    claimed_from: Option<DateTime<Utc>>,
}

type EndpointRead = ((i64, i64), DateTime<Utc>, DateTime<Utc>);

impl ReadRow {
    fn taken(self) -> Result<TakenRow, EndpointRead> {
        let ReadRow { app_id, endpoint_id, .. } = self;
        if let (Some(due_from), Some(claimed_from)) = (self.due_from, self.claimed_from) {
            return Err(((app_id, endpoint_id), due_from, claimed_from));
        }
        Ok(TakenRow {
            app_id,
            endpoint_id,
            id: self.id.unwrap_or_default(),
            number: self.number.unwrap_or_default(),
            body: self.body.unwrap_or_default(),
            attempts: self.attempts.unwrap_or_default(),
            due_at: self.due_at.unwrap_or_default(),
            token: self.token.unwrap_or_default(),
        })
    }
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
