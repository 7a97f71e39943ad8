use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::{AttemptResult, DueMessage, Pace};
use crate::database::columns::{columns, integer};
use crate::database::connection::answered;
use crate::database::instant::instant;
use crate::{Error, Webhooks};

#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    pub due: &'a DueMessage,
    pub settled: AttemptResult,
    /// HTTP status of the answer, such as `503`, or the error.
    pub answer: &'a str,
}

/// Effect of a batch of settlements on one endpoint. [`Health::add`] must be called for each settlement, in order.
#[derive(Default)]
struct Health {
    succeeded: bool,
    /// Since the last success in the batch.
    failures: i32,
    /// Longest pause that the endpoint requested since the last success in the batch.
    asked: Duration,
    gone: bool,
}

/// `nth` is the place of the settlement in the batch, from 1.
struct SettledRow {
    nth: i64,
    is_settled: bool,
}

impl Health {
    fn add(&mut self, settled: AttemptResult) {
        match settled {
            AttemptResult::Accepted => {
                *self = Health { succeeded: true, gone: self.gone, ..Health::default() }
            }
            AttemptResult::NotSent => {}
            AttemptResult::EndpointGone => self.gone = true,
            AttemptResult::GivenUp => self.failures += 1,
            AttemptResult::Retry { pause, .. } => {
                self.failures += 1;
                self.asked = self.asked.max(pause.unwrap_or_default());
            }
        }
    }
}

impl Webhooks<'_> {
    /// Settles attempts and updates the health of their endpoints. Skips an attempt whose message was removed or is claimed by another
    /// process. Returns the indexes of settlements whose messages another transaction has locked; the caller must settle them again after a
    /// short time. After an error, the messages are sent again when their leases expire, unless the caller repeats the call.
    pub async fn settle_webhooks(
        self,
        settlements: &[Settlement<'_>],
        pace: Pace,
    ) -> Result<Vec<usize>, Error> {
        answered(self.settle_all(settlements, pace)).await
    }

    async fn settle_all(self, settlements: &[Settlement<'_>], pace: Pace) -> Result<Vec<usize>, Error> {
        let mut transaction = self.0.begin().await?;
        super::force_index_scans(&mut transaction).await?;
        let noted = lock_noted(&mut transaction, settlements).await?;
        let (settled, locked) = settle(&mut transaction, settlements).await?;
        let mut healths = BTreeMap::<(i64, i64), Health>::new();
        for settlement in settled.iter().filter_map(|index| settlements.get(*index)) {
            let endpoint = (settlement.due.app.0, settlement.due.endpoint);
            if noted.contains(&endpoint) {
                healths.entry(endpoint).or_default().add(settlement.settled);
            }
        }
        update_health(&mut transaction, &healths, pace).await?;
        transaction.commit().await?;
        Ok(locked)
    }
}

/// Locks and returns the endpoints with a failure in the batch or earlier. All processes lock endpoints in key order and before messages,
/// which avoids deadlocks. Most batches contain only successes of healthy endpoints and therefore lock no endpoint.
async fn lock_noted(
    connection: &mut PgConnection,
    settlements: &[Settlement<'_>],
) -> Result<HashSet<(i64, i64)>, Error> {
    let mut failed = BTreeMap::<(i64, i64), bool>::new();
    for Settlement { due, settled, .. } in settlements {
        *failed.entry((due.app.0, due.endpoint)).or_default() |=
            !matches!(settled, AttemptResult::Accepted | AttemptResult::NotSent);
    }
    columns! { ((app, endpoint), has_failed) in failed =>
        app_id = *app,
        id = *endpoint,
        failed = *has_failed,
    }
    let noted = sqlx::query!(
        "SELECT e.app_id, e.id
         FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS told (app_id, id, failed)
         CROSS JOIN LATERAL (
           SELECT app_id, id FROM webhook_endpoint w
           WHERE w.app_id = told.app_id AND w.id = told.id AND (told.failed OR w.failures > 0)
           LIMIT 1 FOR NO KEY UPDATE
         ) AS e",
        &app_id,
        &id,
        &failed
    )
    .fetch_all(connection)
    .await?;
    Ok(noted.into_iter().map(|row| (row.app_id, row.id)).collect())
}

/// Returns the indexes of the settled messages and those of messages that another transaction has locked, in order.
async fn settle(
    connection: &mut PgConnection,
    settlements: &[Settlement<'_>],
) -> Result<(Vec<usize>, Vec<usize>), Error> {
    let outcome = |settled| match settled {
        AttemptResult::Accepted => ("delivered", Duration::ZERO),
        AttemptResult::Retry { after, .. } => ("pending", after),
        AttemptResult::NotSent => ("pending", Duration::ZERO),
        AttemptResult::GivenUp | AttemptResult::EndpointGone => ("failed", Duration::ZERO),
    };
    let was_sent = |settlement: &Settlement<'_>| settlement.settled != AttemptResult::NotSent;
    columns! { settlement in settlements =>
        app_id = settlement.due.app.0,
        endpoint_id = settlement.due.endpoint,
        id = settlement.due.id,
        token = settlement.due.token,
        status = outcome(settlement.settled).0,
        answer = was_sent(settlement).then_some(settlement.answer),
        after = outcome(settlement.settled).1.as_secs_f64(),
        unsent = (!was_sent(settlement)).then(|| instant(settlement.due.due_at)),
    }
    let rows = sqlx::query_file_as!(
        SettledRow,
        "src/webhooks/outgoing/settle.sql",
        &app_id,
        &endpoint_id,
        &id,
        &token,
        &status as &[&str],
        &answer as &[Option<&str>],
        &after,
        &unsent as &[Option<DateTime<Utc>>]
    )
    .fetch_all(connection)
    .await?;
    let indexes = |is_settled| {
        let rows = rows.iter().filter(move |row: &&SettledRow| row.is_settled == is_settled);
        rows.filter_map(|row| usize::try_from(row.nth - 1).ok()).collect::<BTreeSet<usize>>()
    };
    let (held, settled) = (indexes(false), indexes(true));
    Ok((settled.iter().copied().collect(), held.difference(&settled).copied().collect()))
}

async fn update_health(
    connection: &mut PgConnection,
    healths: &BTreeMap<(i64, i64), Health>,
    pace: Pace,
) -> Result<(), Error> {
    if healths.is_empty() {
        return Ok(());
    }
    columns! { ((app, endpoint), health) in healths =>
        app_id = *app,
        id = *endpoint,
        succeeded = health.succeeded,
        failed = health.failures,
        asked = health.asked.as_secs_f64(),
        gone = health.gone,
    }
    sqlx::query!(
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
        &app_id,
        &id,
        &succeeded,
        &failed,
        &asked,
        &gone,
        integer(pace.failures),
        pace.pause.as_secs_f64(),
        pace.longest_pause.as_secs_f64()
    )
    .execute(connection)
    .await?;
    Ok(())
}
