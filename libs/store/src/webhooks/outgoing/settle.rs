//! Settling attempts in batches, with one health update per endpoint.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::{Due, Pace, Settled};
use crate::{Error, Webhooks};

/// Result of one attempt to send a claimed message.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// The claimed message.
    pub due: &'a Due,
    pub settled: Settled,
    /// The status of the answer, such as `503`, or the error.
    pub answer: &'a str,
}

/// Changes to the health of one endpoint by a batch of settlements, in order.
#[derive(Default)]
struct Health {
    /// True if an attempt succeeded.
    succeeded: bool,
    /// Number of failures since the last success in the batch.
    failures: i32,
    /// The longest pause that the endpoint requested since the last success in the batch.
    asked: Duration,
    gone: bool,
}

impl Health {
    fn add(&mut self, settled: Settled) {
        match settled {
            Settled::Taken => *self = Health { succeeded: true, gone: self.gone, ..Health::default() },
            Settled::Gone => self.gone = true,
            Settled::GivenUp => self.failures += 1,
            Settled::Again { pause, .. } => {
                self.failures += 1;
                self.asked = self.asked.max(pause.unwrap_or_default());
            }
        }
    }
}

impl Webhooks<'_> {
    /// Settles attempts, and updates the health of their endpoints. Returns the indexes of settlements whose messages
    /// another transaction has locked; the caller must repeat these shortly. Skips an attempt whose message was removed or
    /// is claimed by another process.
    ///
    /// # Errors
    /// The database failed; no attempt is settled. Unless the caller repeats the call, the messages are sent again after
    /// their leases expire.
    pub async fn settle_webhooks(
        self,
        settlements: &[Settlement<'_>],
        pace: Pace,
    ) -> Result<Vec<usize>, Error> {
        let mut transaction = self.0.begin().await?;
        super::force_index_scans(&mut transaction).await?;
        let noted = lock_noted(&mut transaction, settlements).await?;
        let (settled, locked) = settle(&mut transaction, settlements).await?;
        let mut healths = BTreeMap::<(i64, i64), Health>::new();
        for settlement in settlements.iter().filter(|settlement| settled.contains(&settlement.due.token)) {
            let endpoint = (settlement.due.app.0, settlement.due.endpoint);
            if noted.contains(&endpoint) {
                healths.entry(endpoint).or_default().add(settlement.settled);
            }
        }
        update_health(&mut transaction, &healths, pace).await?;
        transaction.commit().await?;
        let is_locked = |settlement: &Settlement<'_>| locked.contains(&settlement.due.token);
        Ok((0..settlements.len()).filter(|index| is_locked(&settlements[*index])).collect())
    }
}

/// Locks and returns the endpoints whose health may change: those with a failure in the batch or earlier failures. All
/// processes lock endpoints in key order and before their messages, which avoids deadlocks. Most batches contain only
/// successes of healthy endpoints and lock none.
async fn lock_noted(
    connection: &mut PgConnection,
    settlements: &[Settlement<'_>],
) -> Result<HashSet<(i64, i64)>, Error> {
    let mut failed = BTreeMap::<(i64, i64), bool>::new();
    for Settlement { due, settled, .. } in settlements {
        *failed.entry((due.app.0, due.endpoint)).or_default() |= *settled != Settled::Taken;
    }
    let noted: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT e.app_id, e.id
         FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS told (app_id, id, failed)
         CROSS JOIN LATERAL (
           SELECT app_id, id FROM webhook_endpoint w
           WHERE w.app_id = told.app_id AND w.id = told.id AND (told.failed OR w.failures > 0)
           LIMIT 1 FOR NO KEY UPDATE
         ) AS e",
    )
    .bind(failed.keys().map(|(app, _)| *app).collect::<Vec<_>>())
    .bind(failed.keys().map(|(_, endpoint)| *endpoint).collect::<Vec<_>>())
    .bind(failed.values().copied().collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    Ok(noted.into_iter().collect())
}

/// Settles the messages whose claim is still valid, except those that another transaction has locked. Returns the tokens of
/// the settled messages and the tokens of the locked ones.
async fn settle(
    connection: &mut PgConnection,
    settlements: &[Settlement<'_>],
) -> Result<(HashSet<Uuid>, HashSet<Uuid>), Error> {
    let outcome = |settled| match settled {
        Settled::Taken => ("delivered", Duration::ZERO),
        Settled::Again { after, .. } => ("pending", after),
        Settled::GivenUp | Settled::Gone => ("failed", Duration::ZERO),
    };
    let each = || settlements.iter();
    let rows = sqlx::query(
        "WITH held AS MATERIALIZED (
           SELECT m.place, told.token, told.status, told.answer, told.after
           FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::float8[])
             AS told (app_id, endpoint_id, id, token, status, answer, after)
           CROSS JOIN LATERAL (
             SELECT w.ctid AS place FROM webhook_message w
             WHERE w.app_id = told.app_id AND w.endpoint_id = told.endpoint_id AND w.id = told.id
               AND w.token = told.token LIMIT 1
           ) AS m
         ), locked AS MATERIALIZED (
           SELECT ctid AS place, token FROM webhook_message
           WHERE ctid = ANY(ARRAY(SELECT place FROM held)) FOR UPDATE SKIP LOCKED
         ), mine AS MATERIALIZED (
           SELECT locked.place, held.token, held.status, held.answer, held.after FROM locked JOIN held USING (token)
         ), settled AS (
           UPDATE webhook_message m
           SET status = mine.status, token = NULL, last_answer = mine.answer,
             next_at = now() + mine.after * interval '1 second',
             settled_at = CASE WHEN mine.status = 'pending' THEN NULL ELSE now() END
           FROM mine WHERE m.ctid = mine.place RETURNING mine.token
         )
         SELECT held.token, settled.token IS NOT NULL AS settled FROM held LEFT JOIN settled USING (token)",
    )
    .bind(each().map(|settlement| settlement.due.app.0).collect::<Vec<_>>())
    .bind(each().map(|settlement| settlement.due.endpoint).collect::<Vec<_>>())
    .bind(each().map(|settlement| settlement.due.id).collect::<Vec<_>>())
    .bind(each().map(|settlement| settlement.due.token).collect::<Vec<_>>())
    .bind(each().map(|settlement| outcome(settlement.settled).0).collect::<Vec<_>>())
    .bind(each().map(|settlement| settlement.answer).collect::<Vec<_>>())
    .bind(each().map(|settlement| outcome(settlement.settled).1.as_secs_f64()).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let mut settled = HashSet::new();
    let mut locked = HashSet::new();
    for row in rows {
        let tokens = if row.try_get::<bool, _>("settled")? { &mut settled } else { &mut locked };
        tokens.insert(row.try_get("token")?);
    }
    Ok((settled, locked))
}

/// Updates failures, pauses and the disabled state of endpoints.
async fn update_health(
    connection: &mut PgConnection,
    healths: &BTreeMap<(i64, i64), Health>,
    pace: Pace,
) -> Result<(), Error> {
    if healths.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "WITH told AS (
           SELECT n.app_id, n.id, n.succeeded, n.failed, n.asked, n.gone,
             n.failed + CASE WHEN n.succeeded THEN 0 ELSE e.failures END AS failures
           FROM unnest($1::bigint[], $2::bigint[], $3::bool[], $4::int[], $5::float8[], $6::bool[])
             AS n (app_id, id, succeeded, failed, asked, gone)
           JOIN webhook_endpoint e ON e.app_id = n.app_id AND e.id = n.id
         )
         UPDATE webhook_endpoint e SET
           failures = told.failures,
           failing_since = CASE WHEN told.failures = 0 THEN NULL WHEN told.succeeded THEN now()
                                ELSE coalesce(e.failing_since, now()) END,
           paused_until = CASE WHEN told.failed > 0 THEN now() + interval '1 second' * least($9::float8, greatest(told.asked,
               CASE WHEN told.failures >= $7
                    THEN $8::float8 * power(2::float8, least(told.failures - $7, 20)::float8) ELSE 0 END))
             WHEN told.succeeded THEN NULL ELSE e.paused_until END,
           disabled_at = CASE WHEN told.gone THEN coalesce(e.disabled_at, now()) ELSE e.disabled_at END,
           disabled_reason = CASE WHEN told.gone AND e.disabled_at IS NULL THEN 'gone' ELSE e.disabled_reason END
         FROM told WHERE e.app_id = told.app_id AND e.id = told.id",
    )
    .bind(healths.keys().map(|(app, _)| *app).collect::<Vec<_>>())
    .bind(healths.keys().map(|(_, endpoint)| *endpoint).collect::<Vec<_>>())
    .bind(healths.values().map(|health| health.succeeded).collect::<Vec<_>>())
    .bind(healths.values().map(|health| health.failures).collect::<Vec<_>>())
    .bind(healths.values().map(|health| health.asked.as_secs_f64()).collect::<Vec<_>>())
    .bind(healths.values().map(|health| health.gone).collect::<Vec<_>>())
    .bind(i32::try_from(pace.failures).unwrap_or(i32::MAX))
    .bind(pace.pause.as_secs_f64())
    .bind(pace.longest_pause.as_secs_f64())
    .execute(connection)
    .await?;
    Ok(())
}
