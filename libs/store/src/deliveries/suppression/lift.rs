use std::collections::BTreeMap;

use domain::content::Object;
use domain::{Action, Actor, AppId, Channel, DeliveryId, EmailAddress, PhoneNumber, Timestamp, profile};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::database::instant::instant;
use crate::{Deliveries, Error, database::audit::AuditEntry};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiftedSuppression {
    /// Full address, token or endpoint.
    pub target: String,
    pub restored: RestoreResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreResult {
    /// The suppression had removed no token or subscription, for instance because the target is an address.
    Nothing,
    /// Number of users whose profiles have the token again.
    Token(usize),
    Subscription,
    /// The user or device no longer exists, the profile already contains the token or cannot hold another one, or the device has a
    /// different subscription.
    NotNeeded,
}

impl RestoreResult {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            RestoreResult::Nothing => "nothing",
            RestoreResult::Token(_) => "token",
            RestoreResult::Subscription => "subscription",
            RestoreResult::NotNeeded => "notNeeded",
        }
    }
}

/// Stored in the suppression's row: either the users who had the token, or the subscription.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pruned {
    users: Vec<Holder>,
    subscription: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Holder {
    number: i64,
    registered_at: Option<Timestamp>,
}

impl Deliveries<'_> {
    /// Lifts the suppression of `target` and restores its removed token or subscription. `target` may be the full target, or the id of the
    /// delivery that led to the suppression. An address or number may be given in any spelling that a profile may have. Lifts the suppressions
    /// of all spellings of an email address. Returns None if no such suppression exists.
    pub async fn lift_suppression(
        self,
        app: AppId,
        channel: Channel,
        target: &str,
        actor: &Actor,
    ) -> Result<Option<LiftedSuppression>, Error> {
        // The domain of an address is stored as A-labels, and a number as `+` and digits.
        let normalised = match channel {
            Channel::Email => EmailAddress::parse(target).ok().map(|address| address.to_string()),
            Channel::Sms => PhoneNumber::parse(target).ok().map(|number| number.to_string()),
            _ => None,
        };
        let target = normalised.as_deref().unwrap_or(target);
        let mut transaction = self.0.begin().await?;
        let found = sqlx::query!(
            r#"SELECT target, delivery_id, pruned AS "pruned: Json<Pruned>" FROM suppression
               WHERE app_id = $1 AND channel = $2 AND (target = $3 OR delivery_id = $4
                 OR mailbox_key(channel, target) = mailbox_key($2, $3))
               ORDER BY target = $3 DESC LIMIT 1"#,
            app.0,
            channel.as_str(),
            target,
            target.parse::<DeliveryId>().ok().map(|id| id.0)
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(row) = found else { return Ok(None) };
        let (target, delivery) = (row.target, row.delivery_id);
        let pruned = row.pruned.map(|Json(pruned)| pruned);
        let mut profiles = lock_profiles(&mut transaction, app, pruned.as_ref()).await?;
        let deleted = sqlx::query!(
            "DELETE FROM suppression WHERE app_id = $1 AND channel = $2
               AND (target = $3 OR mailbox_key(channel, target) = mailbox_key($2, $3))",
            app.0,
            channel.as_str(),
            &target
        )
        .execute(&mut *transaction)
        .await?;
        if deleted.rows_affected() == 0 {
            return Ok(None);
        }
        let restored = match pruned {
            None => RestoreResult::Nothing,
            Some(Pruned { subscription: Some(kept), .. }) => {
                restore_subscription(&mut transaction, app, &target, &kept).await?
            }
            Some(Pruned { users, .. }) => {
                restore_token(&mut transaction, app, &target, &users, &mut profiles).await?
            }
        };
        // The audit log contains no addresses.
        let subject = format!("{channel} of delivery {delivery}");
        AuditEntry::new(app, actor, Action::SuppressionLift, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Some(LiftedSuppression { target, restored }))
    }
}

/// Locks the users, and returns their profiles by number.
async fn lock_profiles(
    connection: &mut PgConnection,
    app: AppId,
    pruned: Option<&Pruned>,
) -> Result<BTreeMap<i64, Object>, Error> {
    let numbers: Vec<i64> = pruned.iter().flat_map(|pruned| &pruned.users).map(|user| user.number).collect();
    let rows = sqlx::query!(
        r#"SELECT number, profile AS "profile: Json<Object>" FROM app_user
           WHERE app_id = $1 AND number = ANY($2) ORDER BY number FOR NO KEY UPDATE"#,
        app.0,
        &numbers
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.number, row.profile.0)).collect())
}

async fn restore_token(
    connection: &mut PgConnection,
    app: AppId,
    target: &str,
    holders: &[Holder],
    profiles: &mut BTreeMap<i64, Object>,
) -> Result<RestoreResult, Error> {
    let Some((service, token)) = target.split_once(':') else { return Ok(RestoreResult::NotNeeded) };
    let mut restored = 0;
    for Holder { number, registered_at } in holders {
        let Some(before) = profiles.remove(number) else { continue };
        if profile::push_targets(&before).any(|held| held == target) {
            continue;
        }
        let pairs = json!({service: {"token": token}});
        let pairs = pairs.as_object().cloned().unwrap_or_default();
        // Skip the user if the profile would be invalid with the token, for instance because it would have too many tokens.
        let Ok(after) = profile::merged(&before, &pairs) else { continue };
        // The token keeps its original time of registration.
        sqlx::query!(
            "WITH changed AS (
               UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2
             )
             INSERT INTO push_token (app_id, target, user_number, registered_at)
             SELECT $1, $4, $2, $5 WHERE $5::timestamptz IS NOT NULL ON CONFLICT DO NOTHING",
            app.0,
            number,
            Json(&after) as _,
            target,
            registered_at.map(instant)
        )
        .execute(&mut *connection)
        .await?;
        restored += 1;
    }
    Ok(if restored == 0 { RestoreResult::NotNeeded } else { RestoreResult::Token(restored) })
}

async fn restore_subscription(
    connection: &mut PgConnection,
    app: AppId,
    endpoint: &str,
    kept: &Value,
) -> Result<RestoreResult, Error> {
    let restored = sqlx::query!(
        r#"INSERT INTO web_push_subscription (app_id, user_number, device_id, endpoint, p256dh, auth, expires_at)
         SELECT d.app_id, d.user_number, d.device_id, $2, decode(kept.p256dh, 'base64'), decode(kept.auth, 'base64'),
           kept."expiresAt"
         FROM jsonb_to_record($3) AS kept ("user" bigint, device text, p256dh text, auth text, "expiresAt" timestamptz)
         JOIN device d ON (d.app_id, d.user_number, d.device_id) = ($1, kept."user", kept.device)
         ON CONFLICT DO NOTHING"#,
        app.0,
        endpoint,
        Json(kept) as _
    )
    .execute(connection)
    .await?;
    Ok(if restored.rows_affected() == 0 { RestoreResult::NotNeeded } else { RestoreResult::Subscription })
}
