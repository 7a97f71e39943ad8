//! Restoring outcomes: the states of deliveries, suppressions of targets, and cancellations of requests.

use std::collections::{BTreeMap, HashMap};

use domain::event::DeliverySettled;
use domain::{AppId, DeliveryId, Outcome, Reason, SendId, Status, Timestamp};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::Error;
use crate::database::instant::instant;
use crate::deliveries::suppression::{self, DeadTarget};
use crate::recovery::restore::{Restore, number};
use crate::{deliveries::cancellation, sends::send};

/// Code stored instead of the provider's code, which the log does not contain.
const CODE: &str = "restored";

/// An outcome found in the log.
#[derive(Clone, Debug)]
pub struct FoundOutcome {
    pub app: AppId,
    /// Time of the event.
    pub at: Timestamp,
    pub settled: DeliverySettled,
}

impl Restore {
    /// Sets deliveries to the states in `outcomes`, which must be in the order of the log. Returns the number of changed
    /// deliveries.
    ///
    /// An outcome may be published more than once, and an attempt can end twice: first without the provider's answer, then
    /// with it. The outcome of the highest attempt is used. Within an attempt, a state from the provider's answer has
    /// priority over a state set by Tidings. If several outcomes are equal in this order, the last one is used.
    ///
    /// # Errors
    /// The database failed; no delivery is changed.
    pub async fn add_outcomes(&mut self, outcomes: &[FoundOutcome]) -> Result<u64, Error> {
        let mut transaction = self.connection.begin().await?;
        write_attempts(&mut transaction, outcomes).await?;
        let changed = update_deliveries(&mut transaction, outcomes).await?;
        transaction.commit().await?;
        Ok(changed)
    }

    /// Suppresses targets that providers reported as dead at the given times, and removes their tokens and subscriptions.
    /// Skips tokens that were registered later. Returns the number of new suppressions.
    ///
    /// # Errors
    /// The database failed; no target is suppressed.
    pub async fn add_suppressions(
        &mut self,
        dead: &[(AppId, DeliveryId, Timestamp)],
    ) -> Result<usize, Error> {
        let dead: Vec<_> = dead
            .iter()
            .map(|&(app, delivery, at)| DeadTarget { app, delivery, code: CODE, since: Some(at) })
            .collect();
        let mut transaction = self.connection.begin().await?;
        let suppressed = suppression::suppress(&mut transaction, &dead).await?;
        transaction.commit().await?;
        Ok(suppressed.len())
    }

    /// Cancels requests again, including sends that are parked in the backup. Returns the number of new cancellations.
    ///
    /// # Errors
    /// The database failed; nothing is cancelled.
    pub async fn add_cancellations(
        &mut self,
        cancelled: &[(AppId, SendId, Timestamp)],
    ) -> Result<u64, Error> {
        let apps: Vec<_> = cancelled.iter().map(|(app, ..)| app.0).collect();
        let send_ids: Vec<_> = cancelled.iter().map(|(_, send_id, _)| send_id.0).collect();
        let mut transaction = self.connection.begin().await?;
        let parked: Vec<(i64, Uuid)> = sqlx::query_as(
            "SELECT DISTINCT app_id, send_id FROM parked p
             JOIN unnest($1::bigint[], $2::uuid[]) AS cancelled (app_id, send_id) USING (app_id, send_id)
             WHERE p.stream = ANY($3)
               AND NOT EXISTS (SELECT FROM request r WHERE (r.app_id, r.send_id) = (p.app_id, p.send_id))",
        )
        .bind(&apps)
        .bind(&send_ids)
        .bind(send::streams())
        .fetch_all(&mut *transaction)
        .await?;
        for (app, send_id) in &parked {
            cancellation::stop_parked(&mut transaction, AppId(*app), SendId(*send_id)).await?;
        }
        let changed = sqlx::query(
            "UPDATE request r SET cancelled_at = new.at
             FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) AS new (app_id, send_id, at)
             WHERE (r.app_id, r.send_id) = (new.app_id, new.send_id) AND r.cancelled_at IS NULL",
        )
        .bind(&apps)
        .bind(&send_ids)
        .bind(cancelled.iter().map(|(.., at)| instant(*at)).collect::<Vec<_>>())
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(changed.rows_affected() + parked.len() as u64)
    }
}

/// Returns the priority of a state: a higher one contains more information about the attempt. The statement below ranks the
/// states in the ledger in the same way.
fn rank(status: Status) -> i32 {
    match status {
        Status::Queued | Status::Sending => -1,
        Status::Cancelled | Status::Expired | Status::Skipped => 0,
        Status::Unknown => 1,
        Status::Sent => 2,
        Status::Delivered | Status::Failed | Status::Retrying | Status::Parked => 3,
    }
}

/// Updates deliveries. A delivery in `retrying` has already started its next attempt, so an outcome of the previous attempt
/// does not apply. A parked delivery has not started it.
async fn update_deliveries(connection: &mut PgConnection, outcomes: &[FoundOutcome]) -> Result<u64, Error> {
    let mut last: HashMap<_, &FoundOutcome> = HashMap::new();
    for outcome in outcomes {
        let known = last.entry((outcome.app, outcome.settled.delivery_id)).or_insert(outcome);
        let place = |outcome: &FoundOutcome| (outcome.settled.attempt, rank(outcome.settled.status));
        if place(known) <= place(outcome) {
            *known = outcome;
        }
    }
    let all = || last.values();
    let changed = sqlx::query(
        "UPDATE delivery d SET status = new.status, reason = new.reason, provider = coalesce(new.provider, d.provider),
           attempt = new.attempt + (new.status IN ('retrying', 'parked'))::int, lease_until = NULL, calling = false,
           settled_at = CASE WHEN new.status <> 'retrying' THEN new.at END
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::int[])
           AS new (app_id, id, attempt, status, reason, provider, at, rank)
         WHERE (d.app_id, d.id) = (new.app_id, new.id)
           AND (d.status, d.attempt) <> (new.status, new.attempt + (new.status IN ('retrying', 'parked'))::int)
           AND (new.attempt, new.rank) >= (
             d.attempt - (d.status = 'parked')::int,
             CASE WHEN d.status IN ('queued', 'sending', 'retrying') THEN -1
               WHEN d.status IN ('cancelled', 'expired', 'skipped') THEN 0
               WHEN d.status = 'unknown' THEN 1 WHEN d.status = 'sent' THEN 2 ELSE 3 END)",
    )
    .bind(all().map(|outcome| outcome.app.0).collect::<Vec<_>>())
    .bind(all().map(|outcome| outcome.settled.delivery_id.0).collect::<Vec<_>>())
    .bind(all().map(|outcome| number(outcome.settled.attempt)).collect::<Vec<_>>())
    .bind(all().map(|outcome| outcome.settled.status.as_str()).collect::<Vec<_>>())
    .bind(all().map(|outcome| outcome.settled.reason.map(Reason::as_str)).collect::<Vec<_>>())
    .bind(all().map(|outcome| outcome.settled.provider.as_deref()).collect::<Vec<_>>())
    .bind(all().map(|outcome| instant(outcome.at)).collect::<Vec<_>>())
    .bind(all().map(|outcome| rank(outcome.settled.status)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(changed.rows_affected())
}

/// Adds rows for the attempts in which a provider was called, without the provider's code and text.
async fn write_attempts(connection: &mut PgConnection, outcomes: &[FoundOutcome]) -> Result<(), Error> {
    let mut made = BTreeMap::new();
    for outcome in outcomes {
        if let Some(class) = class(&outcome.settled) {
            let key = (outcome.app.0, outcome.settled.delivery_id.0, number(outcome.settled.attempt));
            made.entry(key).or_insert((outcome, class));
        }
    }
    sqlx::query(
        "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, provider, outcome, provider_code,
           provider_message)
         SELECT app_id, delivery_id, number, at, at, provider, outcome, $7, ''
         FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::timestamptz[], $5::text[], $6::text[])
           AS made (app_id, delivery_id, number, at, provider, outcome)
         WHERE EXISTS (SELECT FROM delivery d WHERE (d.app_id, d.id) = (made.app_id, made.delivery_id))
         ON CONFLICT DO NOTHING",
    )
    .bind(made.keys().map(|(app, ..)| *app).collect::<Vec<_>>())
    .bind(made.keys().map(|(_, id, _)| *id).collect::<Vec<_>>())
    .bind(made.keys().map(|(.., attempt)| *attempt).collect::<Vec<_>>())
    .bind(made.values().map(|(outcome, _)| instant(outcome.at)).collect::<Vec<_>>())
    .bind(made.values().map(|(outcome, _)| outcome.settled.provider.as_deref()).collect::<Vec<_>>())
    .bind(made.values().map(|(_, class)| *class).collect::<Vec<_>>())
    .bind(CODE)
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the name of the answer's class that led to a state; None if no provider was called.
fn class(settled: &DeliverySettled) -> Option<&'static str> {
    settled.provider.as_ref()?;
    let outcome = match settled.status {
        Status::Sent | Status::Delivered => Outcome::Sent { provider_id: None },
        Status::Retrying | Status::Parked => Outcome::RETRY,
        Status::Failed if settled.reason == Some(Reason::TargetGone) => Outcome::GONE,
        Status::Failed => Outcome::Failed,
        Status::Unknown => Outcome::Unknown,
        Status::Queued | Status::Sending | Status::Skipped | Status::Cancelled | Status::Expired => {
            return None;
        }
    };
    Some(outcome.name())
}
