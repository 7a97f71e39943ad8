//! Suppression: targets that are no longer used because a provider reported them as dead.
//!
//! Suppressing a push token removes it from all profiles that contain it. Suppressing a web push endpoint deletes its
//! subscription. A suppressed address stays in the profile but is no longer used. The suppression is written in the
//! transaction that records the provider's answer, and it can be lifted ([`lift`]). Profiles are locked before suppressions
//! are written; registering a token locks in the same order.

mod lift;
mod list;

use std::collections::HashSet;

use domain::{AppId, DeliveryId, Timestamp};
use sqlx::{PgConnection, Row};

use crate::database::instant::instant;
use crate::{Deliveries, Error};

pub use lift::{Lifted, Restored};
pub use list::{Suppression, SuppressionFilter};

/// A target that a provider's answer or receipt reported as dead, identified by its delivery.
pub(crate) struct DeadTarget<'a> {
    pub(crate) app: AppId,
    pub(crate) delivery: DeliveryId,
    /// The code in the provider's answer or receipt.
    pub(crate) code: &'a str,
    /// Time since which the target is dead, if the provider reports it. A token registered later is not suppressed.
    pub(crate) since: Option<Timestamp>,
}

/// Locks the users whose profiles contain a dead token. A concurrent registration either commits first, so that its time is
/// compared with the time of death, or it waits and then lifts the suppression.
const LOCK_HOLDERS: &str = "
    SELECT FROM app_user u JOIN (
      SELECT d.app_id, d.user_number FROM delivery d JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id)
        USING (app_id, id) WHERE d.channel = 'mobilePush'
      UNION
      SELECT t.app_id, t.user_number FROM delivery d
        JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id) USING (app_id, id)
        JOIN push_token t ON (t.app_id, t.target) = (d.app_id, d.target) WHERE d.channel = 'mobilePush'
    ) AS holder ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
    ORDER BY u.app_id, u.number FOR NO KEY UPDATE OF u";

const SUPPRESS: &str = "
    INSERT INTO suppression (app_id, channel, target, delivery_id, code)
    SELECT d.app_id, d.channel, d.target, d.id, dead.code
    FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::timestamptz[]) AS dead (app_id, id, code, since)
    JOIN delivery d USING (app_id, id)
    WHERE d.target <> '' AND NOT EXISTS (
      SELECT FROM push_token t
      WHERE d.channel = 'mobilePush' AND (t.app_id, t.target) = (d.app_id, d.target) AND t.registered_at > dead.since
    )
    ORDER BY d.app_id, d.channel, d.target
    ON CONFLICT DO NOTHING RETURNING app_id, channel, target, delivery_id";

const PRUNE_TOKENS: &str = "
    WITH dead AS (
      SELECT dead.app_id, d.user_number, dead.target, substr(dead.target, strpos(dead.target, ':') + 1) AS token
      FROM unnest($2::bigint[], $3::text[], $4::uuid[]) AS dead (app_id, target, id) JOIN delivery d USING (app_id, id)
    ), holder AS (
      SELECT t.app_id, t.user_number, t.target FROM push_token t JOIN dead USING (app_id, target)
      UNION
      SELECT app_id, user_number, target FROM dead
    ), held AS (
      SELECT u.app_id, u.number, dead.target, dead.token, t.registered_at
      FROM holder
      JOIN dead ON (dead.app_id, dead.target) = (holder.app_id, holder.target)
      JOIN app_user u ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
      LEFT JOIN push_token t ON (t.app_id, t.target, t.user_number) = (u.app_id, dead.target, u.number)
      WHERE jsonb_typeof(u.profile #> ARRAY[$1, 'tokens']) = 'array'
        AND jsonb_exists(u.profile #> ARRAY[$1, 'tokens'], dead.token)
    ), pruned AS (
      UPDATE app_user u SET updated_at = now(),
        profile = jsonb_set(u.profile, ARRAY[$1, 'tokens'], (u.profile #> ARRAY[$1, 'tokens']) - mine.tokens)
      FROM (SELECT app_id, number, array_agg(token) AS tokens FROM held GROUP BY app_id, number) AS mine
      WHERE (u.app_id, u.number) = (mine.app_id, mine.number)
    ), unregistered AS (
      DELETE FROM push_token t USING dead WHERE (t.app_id, t.target) = (dead.app_id, dead.target)
    )
    UPDATE suppression s SET pruned = jsonb_build_object('users', kept.users)
    FROM (
      SELECT app_id, target, jsonb_agg(jsonb_build_object('number', number, 'registeredAt', registered_at)) AS users
      FROM held GROUP BY app_id, target
    ) AS kept WHERE (s.app_id, s.channel, s.target) = (kept.app_id, 'mobilePush', kept.target)";

const PRUNE_SUBSCRIPTIONS: &str = "
    WITH dropped AS (
      DELETE FROM web_push_subscription s USING unnest($1::bigint[], $2::text[]) AS dead (app_id, endpoint)
      WHERE (s.app_id, s.endpoint) = (dead.app_id, dead.endpoint) RETURNING s.*
    )
    UPDATE suppression s SET pruned = jsonb_build_object('subscription', jsonb_build_object(
      'user', dropped.user_number, 'device', dropped.device_id, 'p256dh', encode(dropped.p256dh, 'base64'),
      'auth', encode(dropped.auth, 'base64'), 'expiresAt', dropped.expires_at))
    FROM dropped WHERE (s.app_id, s.channel, s.target) = (dropped.app_id, 'webPush', dropped.endpoint)";

/// A suppression that this transaction has written.
struct Written {
    app: i64,
    target: String,
    delivery: uuid::Uuid,
}

impl Deliveries<'_> {
    /// Returns true if this delivery led to the suppression of its target and the target is still suppressed.
    pub async fn has_suppressed(self, app: AppId, delivery: DeliveryId) -> Result<bool, Error> {
        let has_suppressed = sqlx::query_scalar(
            "SELECT EXISTS (
               SELECT FROM delivery d JOIN suppression s USING (app_id, channel, target)
               WHERE d.app_id = $1 AND d.id = $2 AND s.delivery_id = d.id
             )",
        )
        .bind(app.0)
        .bind(delivery.0)
        .fetch_one(&self.0.pool)
        .await?;
        Ok(has_suppressed)
    }
}

/// Suppresses targets and removes their tokens and subscriptions. Returns the deliveries that led to a new suppression.
/// Targets that were already suppressed, or registered again after they died, are skipped.
pub(crate) async fn suppress(
    connection: &mut PgConnection,
    dead: &[DeadTarget<'_>],
) -> Result<HashSet<(AppId, DeliveryId)>, Error> {
    if dead.is_empty() {
        return Ok(HashSet::new());
    }
    let apps: Vec<i64> = dead.iter().map(|dead| dead.app.0).collect();
    let deliveries: Vec<_> = dead.iter().map(|dead| dead.delivery.0).collect();
    sqlx::query(LOCK_HOLDERS).bind(&apps).bind(&deliveries).execute(&mut *connection).await?;
    let rows = sqlx::query(SUPPRESS)
        .bind(&apps)
        .bind(&deliveries)
        .bind(dead.iter().map(|dead| dead.code).collect::<Vec<_>>())
        .bind(dead.iter().map(|dead| dead.since.map(instant)).collect::<Vec<_>>())
        .fetch_all(&mut *connection)
        .await?;
    let mut fcm = Vec::new();
    let mut apns = Vec::new();
    let mut browsers = Vec::new();
    let mut suppressed = HashSet::with_capacity(rows.len());
    for row in rows {
        suppressed.insert((AppId(row.try_get("app_id")?), DeliveryId(row.try_get("delivery_id")?)));
        let channel: &str = row.try_get("channel")?;
        let target: String = row.try_get("target")?;
        let written = match channel {
            "webPush" => &mut browsers,
            "mobilePush" if target.starts_with("fcm:") => &mut fcm,
            "mobilePush" => &mut apns,
            _ => continue,
        };
        written.push(Written { app: row.try_get("app_id")?, target, delivery: row.try_get("delivery_id")? });
    }
    prune_tokens(connection, "fcm", &fcm).await?;
    prune_tokens(connection, "apns", &apns).await?;
    prune_subscriptions(connection, &browsers).await?;
    Ok(suppressed)
}

async fn prune_tokens(connection: &mut PgConnection, service: &str, dead: &[Written]) -> Result<(), Error> {
    if dead.is_empty() {
        return Ok(());
    }
    sqlx::query(PRUNE_TOKENS)
        .bind(service)
        .bind(dead.iter().map(|dead| dead.app).collect::<Vec<_>>())
        .bind(dead.iter().map(|dead| dead.target.as_str()).collect::<Vec<_>>())
        .bind(dead.iter().map(|dead| dead.delivery).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

async fn prune_subscriptions(connection: &mut PgConnection, dead: &[Written]) -> Result<(), Error> {
    if dead.is_empty() {
        return Ok(());
    }
    sqlx::query(PRUNE_SUBSCRIPTIONS)
        .bind(dead.iter().map(|dead| dead.app).collect::<Vec<_>>())
        .bind(dead.iter().map(|dead| dead.target.as_str()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Lifts the suppression of an endpoint. A browser has subscribed with it again, so the endpoint works.
pub(crate) async fn lift_subscribed(
    connection: &mut PgConnection,
    app: AppId,
    endpoint: &str,
) -> Result<(), Error> {
    sqlx::query("DELETE FROM suppression WHERE app_id = $1 AND channel = 'webPush' AND target = $2")
        .bind(app.0)
        .bind(endpoint)
        .execute(connection)
        .await?;
    Ok(())
}
