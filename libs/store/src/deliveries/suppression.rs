//! Suppression of targets. Tidings sends nothing to a target that a provider reports as dead, or to a phone number whose owner opts out.
//!
//! The transaction that records the provider's answer also writes the suppression, and removes a dead push token from all profiles that
//! contain it, or deletes the subscription of a dead web push endpoint. An email address or phone number stays in the profile. An operator
//! or a new registration can lift a suppression.
//!
//! A transaction locks profiles before it writes suppressions. Registering a token locks in the same order, so the two cannot deadlock.

mod lift;
mod list;
mod of_targets;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use domain::{AppId, DeliveryId, Timestamp};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database::columns::columns;
use crate::database::instant::instant;
use crate::{Deliveries, Error};

pub use lift::{LiftedSuppression, RestoreResult};
pub use list::{Suppression, SuppressionFilter, SuppressionPosition};
pub use of_targets::SuppressedTarget;

pub(crate) struct DeadTarget<'a> {
    pub(crate) app: AppId,
    pub(crate) delivery: DeliveryId,
    pub(crate) code: &'a str,
    /// Time at which the target died, if the provider reports it. A token that was registered later is not suppressed.
    pub(crate) since: Option<Timestamp>,
}

struct WrittenSuppression {
    app: i64,
    target: String,
    delivery: Uuid,
}

impl Deliveries<'_> {
    /// Returns true if the target of this delivery is suppressed and this delivery was the cause.
    pub async fn has_suppressed(self, app: AppId, delivery: DeliveryId) -> Result<bool, Error> {
        let has_suppressed = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                 SELECT FROM delivery d JOIN suppression s USING (app_id, channel, target)
                 WHERE d.app_id = $1 AND d.id = $2 AND s.delivery_id = d.id
               ) AS "exists!""#,
            app.0,
            delivery.0
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(has_suppressed)
    }
}

/// Skips targets that are already suppressed or were registered again after they died. Returns the deliveries whose targets are newly
/// suppressed.
pub(crate) async fn suppress(
    connection: &mut PgConnection,
    dead: &[DeadTarget<'_>],
) -> Result<HashSet<(AppId, DeliveryId)>, Error> {
    if dead.is_empty() {
        return Ok(HashSet::new());
    }
    columns! { dead in dead =>
        app_id = dead.app.0,
        id = dead.delivery.0,
        code = dead.code,
        since = dead.since.map(instant),
    }
    lock_holders(connection, &app_id, &id).await?;
    let rows = sqlx::query!(
        "INSERT INTO suppression (app_id, channel, target, delivery_id, code)
         SELECT d.app_id, d.channel, d.target, d.id, dead.code
         FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::timestamptz[]) AS dead (app_id, id, code, since)
         JOIN delivery d USING (app_id, id)
         WHERE d.target <> '' AND NOT EXISTS (
           SELECT FROM push_token t
           WHERE d.channel = 'mobilePush' AND (t.app_id, t.target) = (d.app_id, d.target) AND t.registered_at > dead.since
         )
         ORDER BY d.app_id, d.channel, d.target
         ON CONFLICT DO NOTHING RETURNING app_id, channel, target, delivery_id",
        &app_id,
        &id,
        &code as &[&str],
        &since as &[Option<DateTime<Utc>>]
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut fcm = Vec::new();
    let mut apns = Vec::new();
    let mut browsers = Vec::new();
    let mut suppressed = HashSet::with_capacity(rows.len());
    for row in rows {
        suppressed.insert((AppId(row.app_id), DeliveryId(row.delivery_id)));
        let written = match row.channel.as_str() {
            "webPush" => &mut browsers,
            "mobilePush" if row.target.starts_with("fcm:") => &mut fcm,
            "mobilePush" => &mut apns,
            _ => continue,
        };
        written.push(WrittenSuppression { app: row.app_id, target: row.target, delivery: row.delivery_id });
    }
    prune_tokens(connection, "fcm", &fcm).await?;
    prune_tokens(connection, "apns", &apns).await?;
    prune_subscriptions(connection, &browsers).await?;
    Ok(suppressed)
}

/// Locks the users whose profiles contain a dead token. If a concurrent registration of the token commits first, its time is compared with
/// the time of death; if it waits, it lifts the suppression afterwards.
async fn lock_holders(connection: &mut PgConnection, apps: &[i64], deliveries: &[Uuid]) -> Result<(), Error> {
    sqlx::query!(
        "SELECT FROM app_user u JOIN (
           SELECT d.app_id, d.user_number FROM delivery d JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id)
             USING (app_id, id) WHERE d.channel = 'mobilePush'
           UNION
           SELECT t.app_id, t.user_number FROM delivery d
             JOIN unnest($1::bigint[], $2::uuid[]) AS dead (app_id, id) USING (app_id, id)
             JOIN push_token t ON (t.app_id, t.target) = (d.app_id, d.target) WHERE d.channel = 'mobilePush'
         ) AS holder ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
         ORDER BY u.app_id, u.number FOR NO KEY UPDATE OF u",
        apps,
        deliveries
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn prune_tokens(
    connection: &mut PgConnection,
    service: &str,
    dead: &[WrittenSuppression],
) -> Result<(), Error> {
    if dead.is_empty() {
        return Ok(());
    }
    columns! { dead in dead =>
        app_id = dead.app,
        target = dead.target.as_str(),
        id = dead.delivery,
    }
    sqlx::query_file!(
        "src/deliveries/suppression/prune_tokens.sql",
        service,
        &app_id,
        &target as &[&str],
        &id
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn prune_subscriptions(
    connection: &mut PgConnection,
    dead: &[WrittenSuppression],
) -> Result<(), Error> {
    if dead.is_empty() {
        return Ok(());
    }
    columns! { dead in dead =>
        app_id = dead.app,
        endpoint = dead.target.as_str(),
    }
    sqlx::query!(
        "WITH dropped AS (
           DELETE FROM web_push_subscription s USING unnest($1::bigint[], $2::text[]) AS dead (app_id, endpoint)
           WHERE (s.app_id, s.endpoint) = (dead.app_id, dead.endpoint) RETURNING s.*
         )
         UPDATE suppression s SET pruned = jsonb_build_object('subscription', jsonb_build_object(
           'user', dropped.user_number, 'device', dropped.device_id, 'p256dh', encode(dropped.p256dh, 'base64'),
           'auth', encode(dropped.auth, 'base64'), 'expiresAt', dropped.expires_at))
         FROM dropped WHERE (s.app_id, s.channel, s.target) = (dropped.app_id, 'webPush', dropped.endpoint)",
        &app_id,
        &endpoint as &[&str]
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn lift_subscribed(
    connection: &mut PgConnection,
    app: AppId,
    endpoint: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "DELETE FROM suppression WHERE app_id = $1 AND channel = 'webPush' AND target = $2",
        app.0,
        endpoint
    )
    .execute(connection)
    .await?;
    Ok(())
}
