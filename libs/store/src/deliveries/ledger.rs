//! The ledger: states of deliveries and claims of workers. All its times are from PostgreSQL's clock.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use domain::{AppId, Channel, DeliveryId, Reason, SendId, Status, UserNumber};
use uuid::Uuid;

use crate::database::columns::{columns, integer};
use crate::{Deliveries, Error};

#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub attempt: u32,
    /// If an earlier claim of the same attempt has expired and the channel's calls may be repeated, the provider of that claim is called
    /// instead.
    pub provider: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct HeldClaim {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub token: Uuid,
    /// True if an earlier claim of the same attempt expired, so that its worker may have called the recorded provider.
    pub takes_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Valid until the lease expires.
    Granted {
        token: Uuid,
        provider: Option<String>,
        /// True if an earlier claim of the same attempt expired, so that its worker may have called `provider`.
        takes_over: bool,
    },
    /// The delivery has ended or is already at a later attempt.
    NotDue(DeliveryState),
    /// Time until the lease of another worker's claim expires.
    Leased(Duration),
    /// The database does not contain the delivery, or has it at an earlier attempt than the job. Either means that the
    /// database is behind the log, for instance because it was restored from a backup.
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryState {
    pub app: AppId,
    pub delivery: DeliveryId,
    pub send_id: SendId,
    pub user: UserNumber,
    pub channel: Channel,
    pub status: Status,
    pub reason: Option<Reason>,
    /// Number of the next attempt or, if the delivery has ended, of the last one.
    pub attempt: u32,
    /// Provider of the last attempt; None if no provider was called.
    pub provider: Option<String>,
}

impl DeliveryState {
    /// Only a redrive starts the next attempt of a delivery that is parked after this attempt.
    #[must_use]
    pub fn is_parked_after(&self, attempt: u32) -> bool {
        self.status == Status::Parked && self.attempt == attempt + 1
    }
}

impl Deliveries<'_> {
    /// Claims deliveries for one attempt each. Returns the results in the order of the requests. If two requests name the same delivery,
    /// the second gets [`Claim::Leased`]. After an error, claims may still have been granted; they end when their leases expire.
    ///
    /// Usually nothing prevents a claim, and one statement with little work claims the whole batch. The rest goes to
    /// [`claim_in_full`](Self::claim_in_full).
    pub async fn claim(self, requests: &[ClaimRequest], lease: Duration) -> Result<Vec<Claim>, Error> {
        columns! { request in requests =>
            app_id = request.app.0,
            id = request.delivery.0,
            attempt = integer(request.attempt),
            provider = request.provider.as_deref(),
        }
        let rows = sqlx::query_file!(
            "src/deliveries/claim_fast.sql",
            &app_id,
            &id,
            &attempt,
            &provider as &[Option<&str>],
            lease.as_secs_f64(),
            &Status::WAITING.map(Status::as_str) as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        // A batch may contain the redelivered job of an earlier attempt too.
        let mut claims: HashMap<_, _> = rows
            .into_iter()
            .map(|row| {
                let granted = Claim::Granted { token: row.token, provider: row.provider, takes_over: false };
                ((row.app_id, row.id, row.attempt), granted)
            })
            .collect();
        let keys = app_id.iter().zip(&id).zip(&attempt);
        let fast: Vec<Option<Claim>> =
            keys.map(|((&app, &id), &attempt)| claims.remove(&(app, id, attempt))).collect();
        let left: Vec<ClaimRequest> = requests
            .iter()
            .zip(&fast)
            .filter(|(_, claim)| claim.is_none())
            .map(|(left, _)| left.clone())
            .collect();
        if left.is_empty() {
            return Ok(fast.into_iter().flatten().collect());
        }
        let mut in_full = self.claim_in_full(&left, lease).await?.into_iter();
        Ok(fast.into_iter().filter_map(|claim| claim.or_else(|| in_full.next())).collect())
    }

    /// Like [`claim`](Self::claim), but also waits for locked deliveries, claims those whose lease has expired, and ends those that must
    /// not be attempted.
    pub async fn claim_in_full(
        self,
        requests: &[ClaimRequest],
        lease: Duration,
    ) -> Result<Vec<Claim>, Error> {
        let mut seen = HashSet::with_capacity(requests.len());
        let first: Vec<_> =
            requests.iter().filter(|request| seen.insert((request.app, request.delivery))).collect();
        columns! { request in first =>
            app_id = request.app.0,
            id = request.delivery.0,
            attempt = integer(request.attempt),
            provider = request.provider.as_deref(),
        }
        let rows = sqlx::query_file!(
            "src/deliveries/claim.sql",
            &app_id,
            &id,
            &attempt,
            &provider as &[Option<&str>],
            lease.as_secs_f64(),
            &Channel::ONCE.map(Channel::as_str) as &[&str],
            &Status::OPEN.map(Status::as_str) as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            let state = DeliveryState::try_from(StateRow {
                app_id: row.app_id,
                id: row.id,
                send_id: row.send_id,
                user_number: row.user_number,
                channel: row.channel,
                status: row.status,
                reason: row.reason,
                attempt: row.attempt,
                provider: row.provider,
            })?;
            let key = (state.app, state.delivery);
            let token = row.token.filter(|_| row.ours);
            found.insert(key, FoundDelivery { state, token, takes_over: row.takes_over, wait: row.wait });
        }
        let claim = |request: &ClaimRequest| {
            let key = (request.app, request.delivery);
            if !seen.remove(&key) {
                return Claim::Leased(lease);
            }
            found.remove(&key).map_or(Claim::Missing, |found| found.claim(request))
        };
        Ok(requests.iter().map(claim).collect())
    }

    /// Marks each claim right before a provider call that must not be repeated. Returns false for a claim that is no longer valid: the
    /// caller must not call the provider. Safe to repeat.
    pub async fn mark_calling(self, marks: &[HeldClaim]) -> Result<Vec<bool>, Error> {
        columns! { mark in marks =>
            app_id = mark.app.0,
            id = mark.delivery.0,
            token = mark.token,
        }
        let marked = sqlx::query_scalar!(
            r#"WITH held AS (
               SELECT d.app_id, d.id, mark.token
               FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[]) AS mark (app_id, id, token)
                 USING (app_id, id)
               ORDER BY d.app_id, d.id FOR UPDATE OF d
             )
             UPDATE delivery d SET calling = true
             FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.token = held.token
               AND d.status = 'sending' AND d.lease_until > clock_timestamp()
             RETURNING d.token AS "token!""#,
            &app_id,
            &id,
            &token
        )
        .fetch_all(&self.0.pool)
        .await?;
        let marked: HashSet<Uuid> = marked.into_iter().collect();
        Ok(marks.iter().map(|mark| marked.contains(&mark.token)).collect())
    }

    /// Releases a claim before the provider was called. The same attempt can then be claimed again: with any provider or, if the claim took
    /// over an expired one, with the recorded provider. Returns false, and changes nothing, if the claim is no longer valid or its call may
    /// have started. Safe to repeat.
    pub async fn release(self, claim: HeldClaim) -> Result<bool, Error> {
        let released = sqlx::query!(
            "UPDATE delivery SET token = NULL, lease_until = CASE WHEN $6::boolean THEN now() END,
               status = CASE WHEN $6 THEN status WHEN attempt = 1 THEN $4 ELSE $5 END
             WHERE app_id = $1 AND id = $2 AND token = $3 AND status = 'sending' AND NOT calling",
            claim.app.0,
            claim.delivery.0,
            claim.token,
            Status::Queued.as_str(),
            Status::Retrying.as_str(),
            claim.takes_over
        )
        .execute(&self.0.pool)
        .await?;
        Ok(released.rows_affected() == 1)
    }

    /// Returns the states in any order, without unknown deliveries.
    pub async fn delivery_states(self, named: &[(AppId, DeliveryId)]) -> Result<Vec<DeliveryState>, Error> {
        columns! { (app, delivery) in named =>
            app_id = app.0,
            id = delivery.0,
        }
        let rows = sqlx::query_as!(
            StateRow,
            "SELECT app_id, id, send_id, user_number, channel, status,
               reason || coalesce(':' || detail, '') AS reason, attempt, provider
             FROM delivery JOIN unnest($1::bigint[], $2::uuid[]) AS named (app_id, id) USING (app_id, id)",
            &app_id,
            &id
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(DeliveryState::try_from).collect()
    }
}

struct FoundDelivery {
    state: DeliveryState,
    /// None if the claim was not granted.
    token: Option<Uuid>,
    takes_over: bool,
    /// Seconds until another worker's lease expires.
    wait: Option<f64>,
}

impl FoundDelivery {
    fn claim(self, request: &ClaimRequest) -> Claim {
        let FoundDelivery { state, token, takes_over, wait } = self;
        if let Some(token) = token {
            return Claim::Granted { token, provider: state.provider, takes_over };
        }
        if state.status.is_terminal() || state.attempt > request.attempt {
            return Claim::NotDue(state);
        }
        if state.attempt < request.attempt {
            return Claim::Missing;
        }
        Claim::Leased(Duration::try_from_secs_f64(wait.unwrap_or_default()).unwrap_or_default())
    }
}

pub(crate) struct StateRow {
    pub(crate) app_id: i64,
    pub(crate) id: Uuid,
    pub(crate) send_id: Uuid,
    pub(crate) user_number: i64,
    pub(crate) channel: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) attempt: i32,
    pub(crate) provider: Option<String>,
}

impl TryFrom<StateRow> for DeliveryState {
    type Error = Error;

    fn try_from(row: StateRow) -> Result<Self, Error> {
        Ok(DeliveryState {
            app: AppId(row.app_id),
            delivery: DeliveryId(row.id),
            send_id: SendId(row.send_id),
            user: UserNumber(row.user_number),
            channel: row.channel.parse()?,
            status: row.status.parse()?,
            reason: row.reason.as_deref().map(Reason::read).transpose()?,
            attempt: u32::try_from(row.attempt).unwrap_or_default(),
            provider: row.provider,
        })
    }
}
