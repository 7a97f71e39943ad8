//! Devices of callers that cannot prove the user's identity, in apps that protect addresses from such callers. The call that creates a user
//! returns a secret to the user's first device. A later caller with this secret may change the push token and the web push subscription of
//! this device, but no other address of the user.

use domain::content::Object;
use domain::device::MAX_DEVICES;
use domain::profile::{self, Author, MAX_TOKENS, Refusal, TokenChange};
use domain::web_push::Subscription;
use domain::{AppId, DeviceType, UserNumber};
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::control::quota::{self, Quota};
use crate::directory::push_token::{self, Naming};
use crate::directory::user::proof::{self, Writer};
use crate::directory::user::{self, User};
use crate::{Directory, Error, directory::web_push};

#[derive(Clone, Copy, Debug)]
pub struct UnprovenDevice<'a> {
    pub device_id: &'a str,
    /// None if the client does not report it.
    pub device_type: Option<DeviceType>,
    /// Target such as `fcm:{token}`; None if the call registers no token.
    pub push_target: Option<&'a str>,
    /// Digest of the device's secret; None if the caller did not send the correct secret.
    pub secret: Option<&'a [u8]>,
}

impl Directory<'_> {
    /// Digest of the device's secret; None if the device is unknown or has no secret.
    pub async fn device_secret(
        self,
        app: AppId,
        identifier: &str,
        device_id: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let digest = sqlx::query_scalar!(
            "SELECT d.proof_digest FROM device d JOIN app_user u
               ON (u.app_id, u.number) = (d.app_id, d.user_number)
             WHERE u.app_id = $1 AND u.identifier = $2 AND d.device_id = $3",
            app.0,
            identifier,
            device_id
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(digest.flatten())
    }

    /// Records that a user connected with a device. If the user does not exist, creates the user, stores `fresh` as the digest of the
    /// device's secret, and returns true. For an existing user, accepts a push token only if the caller sent the device's secret. The new
    /// token then replaces the token that the device registered before.
    ///
    /// # Errors
    /// Returns [`Refusal::AddressGuarded`] if the caller may not register the token or the secret is no longer valid.
    pub async fn connect_unproven(
        self,
        app: AppId,
        identifier: &str,
        device: UnprovenDevice<'_>,
        fresh: &[u8],
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let (user, created) =
            user::lock_or_create(&mut transaction, app, identifier, Author::Unproven).await?;
        proof::admit_unproven(&mut transaction, app).await?;
        if created {
            add(&mut transaction, app, user.number, device, Some(fresh)).await?;
        } else if let Some(secret) = device.secret {
            refresh(&mut transaction, app, user.number, device, secret).await?;
        } else if device.push_target.is_some() {
            return Err(Refusal::AddressGuarded.into());
        } else {
            add(&mut transaction, app, user.number, device, None).await?;
        }
        if let Some(target) = device.push_target {
            replace_token(&mut transaction, app, &user, device.device_id, target).await?;
        }
        transaction.commit().await?;
        Ok(created)
    }

    /// `secret` must be the digest of the device's secret, and the endpoint must not belong to another device.
    ///
    /// # Errors
    /// Returns [`Refusal::AddressGuarded`] if the caller may not make this change.
    pub async fn subscribe_unproven(
        self,
        app: AppId,
        identifier: &str,
        (device_id, secret): (&str, &[u8]),
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let mut transaction = self.0.begin().await?;
        let holder = lock_holder(&mut transaction, app, identifier, device_id, Some(secret)).await?;
        let user = holder.ok_or(Refusal::AddressGuarded)?.0.number;
        proof::admit_unproven(&mut transaction, app).await?;
        let owner = web_push::lock_endpoint(&mut transaction, app, &subscription.endpoint).await?;
        if owner.is_some_and(|owner| owner != (user, device_id.to_owned())) {
            return Err(Refusal::AddressGuarded.into());
        }
        web_push::put(&mut transaction, app, user, (device_id, Author::Unproven), subscription).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// `secret` must be the digest of the device's secret. Returns false if the device has no subscription.
    ///
    /// # Errors
    /// Returns [`Refusal::AddressGuarded`] if the caller may not make this change.
    pub async fn unsubscribe_unproven(
        self,
        app: AppId,
        identifier: &str,
        (device_id, secret): (&str, &[u8]),
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let holder = lock_holder(&mut transaction, app, identifier, device_id, Some(secret)).await?;
        let user = holder.ok_or(Refusal::AddressGuarded)?.0.number;
        let deleted = sqlx::query!(
            "DELETE FROM web_push_subscription WHERE app_id = $1 AND user_number = $2 AND device_id = $3",
            app.0,
            user.0,
            device_id
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(deleted.rows_affected() > 0)
    }

    /// Removes from the profile the push token that a device registered. If `secret` is given, it must be the digest of the device's
    /// secret, which stays valid. If it is None, the caller must have proved the user's identity, and the device's secret becomes invalid.
    /// Returns false if the device has registered no token.
    ///
    /// # Errors
    /// Returns [`Refusal::AddressGuarded`] if the caller may not make this change.
    pub async fn remove_push_token(
        self,
        app: AppId,
        writer: impl Into<Writer<'_>>,
        device_id: &str,
        secret: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let writer = writer.into();
        let mut transaction = self.0.begin().await?;
        let holder = lock_holder(&mut transaction, app, writer.user, device_id, secret).await?;
        let Some((user, target)) = holder else {
            return if secret.is_some() { Err(Refusal::AddressGuarded.into()) } else { Ok(false) };
        };
        sqlx::query!(
            "UPDATE device SET push_target = NULL, proof_digest = $4, proven = proven OR $5
             WHERE app_id = $1 AND user_number = $2 AND device_id = $3",
            app.0,
            user.number.0,
            device_id,
            secret,
            secret.is_none() && writer.author.has_proof()
        )
        .execute(&mut *transaction)
        .await?;
        let mut after = user.profile.clone();
        let removed = target.is_some_and(|target| profile::remove_token(&mut after, &target));
        write_profile(&mut transaction, app, &user, after).await?;
        if secret.is_none() && writer.author.has_proof() {
            proof::end_many(&mut transaction, app, &[user.number]).await?;
        }
        transaction.commit().await?;
        Ok(removed)
    }
}

/// Adds a device. An existing device is updated only if it is not protected: it has no secret, and no caller that proved the user's
/// identity has connected with it. Surplus devices above [`MAX_DEVICES`] are deleted if they are not protected. The new device may be among
/// them.
async fn add(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    device: UnprovenDevice<'_>,
    secret: Option<&[u8]>,
) -> Result<(), Error> {
    let created = sqlx::query_scalar!(
        r#"INSERT INTO device (app_id, user_number, device_id, device_type, proven, proof_digest)
         VALUES ($1, $2, $3, $4, false, $5)
         ON CONFLICT (app_id, user_number, device_id)
         DO UPDATE SET device_type = coalesce(excluded.device_type, device.device_type), connected_at = now()
           WHERE NOT device.proven AND device.proof_digest IS NULL
         RETURNING xmax = 0 AS "created!""#,
        app.0,
        user.0,
        device.device_id,
        device.device_type.map(DeviceType::as_str),
        secret
    )
    .fetch_optional(&mut *connection)
    .await?;
    if created != Some(true) {
        return Ok(());
    }
    sqlx::query!(
        "DELETE FROM device WHERE app_id = $1 AND user_number = $2 AND NOT proven AND proof_digest IS NULL
         AND device_id IN (SELECT device_id FROM device WHERE app_id = $1 AND user_number = $2
           ORDER BY proven OR proof_digest IS NOT NULL DESC, connected_at DESC, device_id OFFSET $3)",
        app.0,
        user.0,
        MAX_DEVICES
    )
    .execute(&mut *connection)
    .await?;
    quota::check(connection, app, Quota::Devices).await
}

/// Returns [`Refusal::AddressGuarded`] if `secret` is no longer the digest of the device's secret.
async fn refresh(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    device: UnprovenDevice<'_>,
    secret: &[u8],
) -> Result<(), Error> {
    let refreshed = sqlx::query!(
        "UPDATE device SET device_type = coalesce($5, device_type), connected_at = now()
         WHERE app_id = $1 AND user_number = $2 AND device_id = $3 AND proof_digest = $4",
        app.0,
        user.0,
        device.device_id,
        secret,
        device.device_type.map(DeviceType::as_str)
    )
    .execute(connection)
    .await?;
    if refreshed.rows_affected() == 0 { Err(Refusal::AddressGuarded.into()) } else { Ok(()) }
}

/// Locks the user of a device. Also returns the push target that the device registered. Returns None if `secret` is given and is not the
/// digest of the device's secret.
async fn lock_holder(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    device_id: &str,
    secret: Option<&[u8]>,
) -> Result<Option<(User, Option<String>)>, Error> {
    let Some(user) = user::lock(connection, app, identifier).await? else { return Ok(None) };
    let target = sqlx::query_scalar!(
        "SELECT push_target FROM device WHERE app_id = $1 AND user_number = $2 AND device_id = $3
         AND ($4::bytea IS NULL OR proof_digest = $4)",
        app.0,
        user.number.0,
        device_id,
        secret
    )
    .fetch_optional(connection)
    .await?;
    Ok(target.map(|target| (user, target)))
}

/// Adds a new token in place of the token that the device registered before. Refuses it if another user has it, or if the profile already
/// contains the maximum number of tokens.
async fn replace_token(
    connection: &mut PgConnection,
    app: AppId,
    user: &User,
    device_id: &str,
    target: &str,
) -> Result<(), Error> {
    let held = sqlx::query!(
        r#"SELECT push_target, EXISTS (SELECT FROM push_token t
           WHERE t.app_id = $1 AND t.target = $4 AND t.user_number <> $2) AS "taken!"
         FROM device WHERE app_id = $1 AND user_number = $2 AND device_id = $3"#,
        app.0,
        user.number.0,
        device_id,
        target
    )
    .fetch_one(&mut *connection)
    .await?;
    if held.taken {
        return Err(Refusal::AddressGuarded.into());
    }
    if profile::push_targets(&user.profile).any(|held| held == target) {
        return Ok(());
    }
    let mut after = user.profile.clone();
    if let Some(own) = held.push_target {
        profile::remove_token(&mut after, &own);
    }
    let (service, token) = target.split_once(':').ok_or(Refusal::AddressGuarded)?;
    if profile::count_tokens(&after, service) >= MAX_TOKENS {
        return Err(Refusal::AddressGuarded.into());
    }
    let pairs = json!({service: {"token": token}});
    let after = profile::merged(&after, &pairs.as_object().cloned().unwrap_or_default())?;
    write_profile(connection, app, user, after).await?;
    sqlx::query!(
        "UPDATE device SET push_target = $4 WHERE app_id = $1 AND user_number = $2 AND device_id = $3",
        app.0,
        user.number.0,
        device_id,
        target
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_profile(
    connection: &mut PgConnection,
    app: AppId,
    user: &User,
    after: Object,
) -> Result<(), Error> {
    if after == user.profile {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2",
        app.0,
        user.number.0,
        Json(&after) as _
    )
    .execute(&mut *connection)
    .await?;
    let change = TokenChange::patched(&user.profile, &after);
    push_token::record(connection, &[(app, user.number, change)], Naming::Registers).await
}
