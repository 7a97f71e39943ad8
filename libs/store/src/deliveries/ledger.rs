//! The ledger: the state of each delivery and the claims of workers. All times are from PostgreSQL's clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, UserNumber};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::{Deliveries, Error};

/// A request to claim a delivery for one attempt.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub app: AppId,
    pub delivery: DeliveryId,
    /// Number of the attempt, as in the job.
    pub attempt: u32,
    /// The provider to call. If an earlier claim on this attempt has expired and the channel's calls may be repeated, the
    /// provider of that claim is used instead.
    pub provider: Option<String>,
}

/// A claim to mark before its provider call starts.
#[derive(Clone, Copy, Debug)]
pub struct CallMark {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub token: Uuid,
}

/// Result of a [`ClaimRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The claim is granted until the lease expires.
    Ours {
        /// Identifies the claim; required for settling.
        token: Uuid,
        /// The provider to call.
        provider: Option<String>,
    },
    /// No attempt is due: the delivery has ended or is at a later attempt.
    Done(DeliveryState),
    /// Another worker has the claim; its lease expires after this time.
    Leased(Duration),
    /// The delivery is unknown or at an earlier attempt than the job. This means that the database is behind the log.
    Missing,
}

/// State of a delivery in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryState {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub send_id: SendId,
    pub user: UserNumber,
    pub channel: Channel,
    pub status: Status,
    /// Reason for the status.
    pub reason: Option<Reason>,
    /// Number of the next attempt or, if the delivery has ended, of the last one.
    pub attempt: u32,
    /// The provider of the last attempt; None if no provider was called.
    pub provider: Option<String>,
}

impl DeliveryState {
    /// Returns true if the delivery was parked after this attempt; only a redrive starts the next attempt.
    #[must_use]
    pub fn is_parked_after(&self, attempt: u32) -> bool {
        self.status == Status::Parked && self.attempt == attempt + 1
    }
}

/// Ends deliveries that must not be attempted and claims the others. If `calling` is set and the lease has expired, the
/// provider may have received a call that must not be repeated, so the delivery ends as `unknown`. The statement reads
/// delivery rows through `held`: after waiting for a row lock, only the locked row is current, while the statement's
/// snapshot is older.
const CLAIM: &str = "
    WITH job AS (
      SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[]) AS job (app_id, id, attempt, provider)
    ), locked AS (
      SELECT d.app_id, d.id, d.channel, d.target, d AS delivery, job.attempt AS wanted, job.provider AS offered,
        e.user_number IS NOT NULL AS erased, r.cancelled_at IS NOT NULL AS cancelled
      FROM delivery d JOIN job USING (app_id, id)
      LEFT JOIN erased e ON (e.app_id, e.user_number) = (d.app_id, d.user_number)
      LEFT JOIN request r ON (r.app_id, r.send_id) = (d.app_id, d.send_id)
      ORDER BY d.app_id, d.id FOR UPDATE OF d
    ), dead AS MATERIALIZED (
      -- Asked once every row is locked, and of the present: who waited for a row calls no target that died meanwhile.
      SELECT app_id, channel, target FROM suppressed_among((SELECT array_agg(app_id) FROM locked),
        (SELECT array_agg(channel) FROM locked), (SELECT array_agg(target) FROM locked))
    ), held AS (
      SELECT locked.*, dead.target IS NOT NULL AS suppressed
      FROM locked LEFT JOIN dead USING (app_id, channel, target)
    ), ended AS (
      UPDATE delivery d SET
        status = CASE WHEN d.calling THEN 'unknown' WHEN held.erased THEN 'skipped' WHEN held.cancelled THEN 'cancelled'
          WHEN d.expires_at <= now() THEN 'expired' ELSE 'skipped' END,
        reason = CASE WHEN d.calling THEN 'outcome_unknown' WHEN held.erased THEN 'recipient_erased' WHEN held.cancelled THEN 'request_cancelled'
          WHEN d.expires_at <= now() THEN NULL ELSE 'suppressed' END,
        lease_until = NULL, settled_at = now()
      FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.attempt = held.wanted
        AND d.status IN ('queued', 'retrying', 'sending') AND (d.lease_until IS NULL OR d.lease_until <= now())
        AND (d.calling OR d.expires_at <= now() OR held.suppressed OR held.erased OR held.cancelled)
      RETURNING d.*
    ), claimed AS (
      UPDATE delivery d SET status = 'sending', token = gen_random_uuid(),
        lease_until = clock_timestamp() + $5::float8 * interval '1 second',
        provider = CASE WHEN d.status = 'sending' AND d.channel <> ALL ($6) THEN coalesce(d.provider, held.offered)
          ELSE held.offered END
      FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.attempt = held.wanted
        AND d.status IN ('queued', 'retrying', 'sending') AND (d.lease_until IS NULL OR d.lease_until <= now())
        AND (d.expires_at IS NULL OR d.expires_at > now()) AND NOT held.suppressed AND NOT held.erased
        AND NOT held.cancelled AND NOT d.calling
      RETURNING d.*
    )
    SELECT d.*, false AS ours, NULL::float8 AS wait FROM ended d
    UNION ALL
    SELECT d.*, true, NULL FROM claimed d
    UNION ALL
    SELECT (held.delivery).*, false, extract(epoch FROM (held.delivery).lease_until - clock_timestamp())::float8 FROM held
    WHERE NOT EXISTS (SELECT FROM ended e WHERE (e.app_id, e.id) = (held.app_id, held.id))
      AND NOT EXISTS (SELECT FROM claimed c WHERE (c.app_id, c.id) = (held.app_id, held.id))";

impl Deliveries<'_> {
    /// Claims deliveries for attempts, in one statement. Returns the results in the order of the requests. If two requests
    /// name the same delivery, the second gets [`Claim::Leased`].
    ///
    /// # Errors
    /// The database failed. Claims may have been granted nevertheless; they end when their leases expire.
    pub async fn claim(self, requests: &[ClaimRequest], lease: Duration) -> Result<Vec<Claim>, Error> {
        let mut seen = HashSet::with_capacity(requests.len());
        let first: Vec<_> =
            requests.iter().filter(|request| seen.insert((request.app, request.delivery))).collect();
        let rows = sqlx::query(CLAIM)
            .bind(first.iter().map(|request| request.app.0).collect::<Vec<_>>())
            .bind(first.iter().map(|request| request.delivery.0).collect::<Vec<_>>())
            .bind(
                first
                    .iter()
                    .map(|request| i32::try_from(request.attempt).unwrap_or(i32::MAX))
                    .collect::<Vec<_>>(),
            )
            .bind(first.iter().map(|request| request.provider.as_deref()).collect::<Vec<_>>())
            .bind(lease.as_secs_f64())
            .bind(Channel::ONCE.map(Channel::as_str).to_vec())
            .fetch_all(&self.0.pool)
            .await?;
        let mut found: HashMap<_, _> = HashMap::with_capacity(rows.len());
        for row in &rows {
            let state = read_state(row)?;
            found.insert((state.app, state.delivery), (state, row));
        }
        requests
            .iter()
            .map(|request| {
                let key = (request.app, request.delivery);
                if !seen.remove(&key) {
                    return Ok(Claim::Leased(lease));
                }
                match found.remove(&key) {
                    Some((state, row)) => answer(request, state, row),
                    None => Ok(Claim::Missing),
                }
            })
            .collect()
    }

    /// Marks claims whose provider call must not be repeated, just before the call. Returns true for each claim that is
    /// still valid; otherwise the caller must not call the provider. Repeating is safe.
    ///
    /// # Errors
    /// The database failed; the claims may or may not be marked.
    pub async fn mark_calling(self, marks: &[CallMark]) -> Result<Vec<bool>, Error> {
        let marked: Vec<Uuid> = sqlx::query_scalar(
            "WITH held AS (
               SELECT d.app_id, d.id, mark.token
               FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[]) AS mark (app_id, id, token)
                 USING (app_id, id)
               ORDER BY d.app_id, d.id FOR UPDATE OF d
             )
             UPDATE delivery d SET calling = true
             FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.token = held.token
               AND d.status = 'sending' AND d.lease_until > clock_timestamp()
             RETURNING d.token",
        )
        .bind(marks.iter().map(|mark| mark.app.0).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| mark.delivery.0).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| mark.token).collect::<Vec<_>>())
        .fetch_all(&self.0.pool)
        .await?;
        let marked: HashSet<Uuid> = marked.into_iter().collect();
        Ok(marks.iter().map(|mark| marked.contains(&mark.token)).collect())
    }

    /// Returns the states of the known ones among these deliveries, in any order.
    pub async fn delivery_states(self, named: &[(AppId, DeliveryId)]) -> Result<Vec<DeliveryState>, Error> {
        let rows = sqlx::query(
            "SELECT d.* FROM delivery d
             JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, id) USING (app_id, id)",
        )
        .bind(named.iter().map(|(app, _)| app.0).collect::<Vec<_>>())
        .bind(named.iter().map(|(_, id)| id.0).collect::<Vec<_>>())
        .fetch_all(&self.0.pool)
        .await?;
        rows.iter().map(read_state).collect()
    }
}

fn answer(request: &ClaimRequest, state: DeliveryState, row: &PgRow) -> Result<Claim, Error> {
    if row.try_get("ours")? {
        return Ok(Claim::Ours { token: row.try_get("token")?, provider: state.provider });
    }
    if state.status.is_terminal() || state.attempt > request.attempt {
        return Ok(Claim::Done(state));
    }
    if state.attempt < request.attempt {
        return Ok(Claim::Missing);
    }
    let wait: Option<f64> = row.try_get("wait")?;
    Ok(Claim::Leased(Duration::try_from_secs_f64(wait.unwrap_or_default()).unwrap_or_default()))
}

pub(crate) fn read_state(row: &PgRow) -> Result<DeliveryState, Error> {
    let channel: &str = row.try_get("channel")?;
    let status: &str = row.try_get("status")?;
    let reason: Option<&str> = row.try_get("reason")?;
    let unreadable = |error: domain::problem::UnknownName| Error::Unreadable(error.to_string());
    Ok(DeliveryState {
        app: AppId(row.try_get("app_id")?),
        delivery: DeliveryId(row.try_get("id")?),
        send_id: SendId(row.try_get("send_id")?),
        user: UserNumber(row.try_get("user_number")?),
        channel: channel.parse().map_err(unreadable)?,
        status: status.parse().map_err(unreadable)?,
        reason: reason.map(str::parse).transpose().map_err(unreadable)?,
        attempt: u32::try_from(row.try_get::<i32, _>("attempt")?).unwrap_or_default(),
        provider: row.try_get("provider")?,
    })
}
