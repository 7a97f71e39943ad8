//! Messages on their way to endpoints: taken for a while by one process, settled by the one that holds them.

use std::time::Duration;

use domain::AppId;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::{Error, Store};

/// How endpoints are treated.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a message belongs to who took it; longer than a call takes.
    pub lease: Duration,
    /// Calls under way to one endpoint, over all processes.
    pub per_endpoint: u32,
    /// Calls under way for one app, over all processes: what is slow in one must not keep all others waiting.
    pub per_app: u32,
    /// Failures in a row after which an endpoint is called once at a time, with pauses that grow.
    pub failures: u32,
    /// The first pause; each further failure doubles it.
    pub pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

/// A message to be told now.
#[derive(Clone)]
pub struct Due {
    /// The app.
    pub app: AppId,
    /// The endpoint.
    pub endpoint: i64,
    /// The message's id, the same in every attempt.
    pub id: Uuid,
    /// Where to.
    pub url: String,
    /// The JSON text.
    pub body: String,
    /// Secrets to sign with, newest first, in the context `webhook-secret:{app}:{endpoint}`.
    pub sealed: Vec<Vec<u8>>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Names the holder.
    pub token: Uuid,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The endpoint took it.
    Taken,
    /// Again after this time; where the endpoint itself asked for it, it is left alone for as long.
    Again {
        /// Until the next attempt.
        after: Duration,
        /// For everything else, too.
        pause: Option<Duration>,
    },
    /// Given up.
    GivenUp,
    /// The endpoint says that it is gone for good: given up, and the endpoint is turned off.
    Gone,
}

impl Store {
    /// Takes up to `most` messages that are due: of each endpoint and app no more than may be under way at once, and of a
    /// subject the earliest alone. Apps with few calls under way come first, then what has been due for longest.
    ///
    /// Written so that one plan is the cheapest whatever the statistics, which a new installation has none of: its cost
    /// grows with what is taken, not with what waits.
    ///
    /// # Errors
    /// The database failed.
    pub async fn take_webhooks(&self, most: u32, pace: Pace) -> Result<Vec<Due>, Error> {
        sqlx::query(
            "WITH waiting AS (
               SELECT m.*, e.url, row_number() OVER (PARTITION BY e.app_id ORDER BY m.next_at, m.number) + (
                   SELECT count(*) FROM webhook_message calling
                   WHERE calling.app_id = e.app_id AND calling.token IS NOT NULL AND calling.next_at > now()
                 ) AS place
               FROM webhook_endpoint e CROSS JOIN LATERAL (
                 SELECT w.ctid AS at, w.next_at, w.number FROM webhook_message w
                 WHERE w.app_id = e.app_id AND w.endpoint_id = e.id AND w.status = 'pending' AND w.next_at <= now()
                   AND w.number = (
                     SELECT earliest.number FROM webhook_message earliest
                     WHERE earliest.app_id = w.app_id AND earliest.endpoint_id = w.endpoint_id
                       AND earliest.subject = w.subject AND earliest.settled_at IS NULL
                     ORDER BY earliest.number LIMIT 1
                   )
                 ORDER BY w.next_at, w.number
                 LIMIT greatest(0, CASE WHEN e.failures >= $3 THEN 1 ELSE $2 END - (
                   SELECT count(*) FROM webhook_message under_way
                   WHERE under_way.app_id = e.app_id AND under_way.endpoint_id = e.id
                     AND under_way.token IS NOT NULL AND under_way.next_at > now()
                 ))
               ) AS m
               WHERE e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())
             ), due AS (
               SELECT w.app_id, w.endpoint_id, w.id, waiting.url
               FROM waiting JOIN webhook_message w ON w.ctid = waiting.at
               -- Said again, for somebody else may have taken it since.
               WHERE waiting.place <= $5 AND w.status = 'pending' AND w.next_at <= now()
               ORDER BY waiting.place, waiting.next_at, waiting.number
               LIMIT $1 FOR UPDATE OF w SKIP LOCKED
             )
             UPDATE webhook_message m
             SET token = gen_random_uuid(), attempts = m.attempts + 1,
                 next_at = now() + $4::float8 * interval '1 second'
             FROM due WHERE (m.app_id, m.endpoint_id, m.id) = (due.app_id, due.endpoint_id, due.id)
             RETURNING m.app_id, m.endpoint_id, m.id, m.body, m.attempts, m.token, due.url, (
               SELECT coalesce(array_agg(s.sealed ORDER BY s.id DESC), '{}') FROM webhook_secret s
               WHERE (s.app_id, s.endpoint_id) = (m.app_id, m.endpoint_id)
                 AND (s.expires_at IS NULL OR s.expires_at > now())
             ) AS sealed",
        )
        .bind(i64::from(most))
        .bind(i64::from(pace.per_endpoint))
        .bind(i64::from(pace.failures))
        .bind(pace.lease.as_secs_f64())
        .bind(i64::from(pace.per_app))
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(read_due)
        .collect()
    }

    /// Settles an attempt, and notes how its endpoint fares. False: somebody else holds the message now, or it is gone.
    ///
    /// # Errors
    /// The database failed; the message comes again after its lease.
    pub async fn settle_webhook(
        &self,
        due: &Due,
        settled: Settled,
        answer: &str,
        pace: Pace,
    ) -> Result<bool, Error> {
        let (status, after) = match settled {
            Settled::Taken => ("delivered", Duration::ZERO),
            Settled::Again { after, .. } => ("pending", after),
            Settled::GivenUp | Settled::Gone => ("failed", Duration::ZERO),
        };
        let mut transaction = self.begin().await?;
        let held = sqlx::query(
            "UPDATE webhook_message SET status = $5, token = NULL, last_answer = $6,
               next_at = now() + $7::float8 * interval '1 second',
               settled_at = CASE WHEN $5 = 'pending' THEN NULL ELSE now() END
             WHERE app_id = $1 AND endpoint_id = $2 AND id = $3 AND token = $4",
        )
        .bind(due.app.0)
        .bind(due.endpoint)
        .bind(due.id)
        .bind(due.token)
        .bind(status)
        .bind(answer)
        .bind(after.as_secs_f64())
        .execute(&mut *transaction)
        .await?;
        if held.rows_affected() == 0 {
            return Ok(false);
        }
        note(&mut transaction, due, settled, pace).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// Notes how an endpoint fares.
async fn note(connection: &mut PgConnection, due: &Due, settled: Settled, pace: Pace) -> Result<(), Error> {
    let endpoint = match settled {
        Settled::Taken => sqlx::query(
            "UPDATE webhook_endpoint SET failures = 0, failing_since = NULL, paused_until = NULL
             WHERE app_id = $1 AND id = $2 AND failures > 0",
        )
        .bind(due.app.0)
        .bind(due.endpoint),
        Settled::Gone => sqlx::query(
            "UPDATE webhook_endpoint SET disabled_at = now(), disabled_reason = 'gone'
             WHERE app_id = $1 AND id = $2 AND disabled_at IS NULL",
        )
        .bind(due.app.0)
        .bind(due.endpoint),
        Settled::Again { .. } | Settled::GivenUp => {
            let asked = match settled {
                Settled::Again { pause, .. } => pause.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            sqlx::query(
                "UPDATE webhook_endpoint SET failures = failures + 1,
                   failing_since = coalesce(failing_since, now()),
                   paused_until = now() + interval '1 second' * least($5::float8, greatest($6::float8,
                     CASE WHEN failures + 1 >= $3
                          THEN $4::float8 * power(2::float8, least(failures + 1 - $3, 20)::float8) ELSE 0 END))
                 WHERE app_id = $1 AND id = $2",
            )
            .bind(due.app.0)
            .bind(due.endpoint)
            .bind(i32::try_from(pace.failures).unwrap_or(i32::MAX))
            .bind(pace.pause.as_secs_f64())
            .bind(pace.longest_pause.as_secs_f64())
            .bind(asked.as_secs_f64())
        }
    };
    endpoint.execute(connection).await?;
    Ok(())
}

fn read_due(row: &PgRow) -> Result<Due, Error> {
    let attempts: i32 = row.try_get("attempts")?;
    Ok(Due {
        app: AppId(row.try_get("app_id")?),
        endpoint: row.try_get("endpoint_id")?,
        id: row.try_get("id")?,
        url: row.try_get("url")?,
        body: row.try_get("body")?,
        sealed: row.try_get("sealed")?,
        attempt: attempts.unsigned_abs(),
        token: row.try_get("token")?,
    })
}
