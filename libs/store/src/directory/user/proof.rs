//! Targets that callers without a proof registered, and that the first write with a proof ends.

use std::collections::HashMap;

use domain::content::Object;
use domain::profile::{Author, Refusal, TokenChange, Unproven};
use domain::{AppId, UserNumber};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::directory::push_token::{self, Naming};
use crate::{Directory, Error, Store};

const BATCH: i64 = 500;

/// A user, and the proof of the caller who writes in the user's name. A plain identifier stands for a caller with a proof.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub user: &'a str,
    pub author: Author,
}

impl<'a> From<&'a str> for Writer<'a> {
    fn from(user: &'a str) -> Writer<'a> {
        Writer { user, author: Author::User }
    }
}

impl<'a> From<&'a String> for Writer<'a> {
    fn from(user: &'a String) -> Writer<'a> {
        Writer::from(user.as_str())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Unconfirmed {
    pub(crate) addresses: Unproven,
    /// True if a device has a secret, or a web push subscription is unproven.
    devices: bool,
    /// True if a write with a proof ends these targets, because the app guards addresses.
    pub(crate) end: bool,
}

impl Unconfirmed {
    fn has_any(&self) -> bool {
        self.end && (self.devices || !self.addresses.is_empty())
    }

    pub(crate) fn ends_devices(&self, author: Author) -> bool {
        self.devices && self.end && author.has_proof()
    }
}

/// Callers that write afterwards must have locked the users, or must write only if the version of the profile is still that of an earlier
/// read.
pub(crate) async fn read(
    connection: &mut PgConnection,
    users: &[(AppId, UserNumber)],
) -> Result<HashMap<(AppId, UserNumber), Unconfirmed>, Error> {
    let (apps, numbers): (Vec<i64>, Vec<i64>) = users.iter().map(|(app, user)| (app.0, user.0)).unzip();
    let rows = sqlx::query!(
        r#"SELECT u.app_id, u.number, coalesce(a.guard_addresses, NOT a.development) OR a.secure_mode OR a.hmac AS "end!",
           u.unproven || coalesce((SELECT jsonb_agg(d.push_target) FROM device d
             WHERE (d.app_id, d.user_number) = (u.app_id, u.number) AND NOT d.proven AND d.push_target IS NOT NULL), '[]')
             AS "addresses!: Json<Unproven>",
           EXISTS (SELECT FROM device d WHERE (d.app_id, d.user_number) = (u.app_id, u.number)
             AND NOT d.proven AND (d.proof_digest IS NOT NULL OR d.push_target IS NOT NULL))
             OR EXISTS (SELECT FROM web_push_subscription s WHERE (s.app_id, s.user_number) = (u.app_id, u.number)
               AND NOT s.proven) AS "devices!"
         FROM app_user u JOIN unnest($1::bigint[], $2::bigint[]) AS named (app_id, number)
           ON (u.app_id, u.number) = (named.app_id, named.number)
         JOIN app a ON a.id = u.app_id"#,
        &apps,
        &numbers
    )
    .fetch_all(connection)
    .await?;
    let found = rows.into_iter().map(|row| {
        let unconfirmed = Unconfirmed { addresses: row.addresses.0, devices: row.devices, end: row.end };
        ((AppId(row.app_id), UserNumber(row.number)), unconfirmed)
    });
    Ok(found.collect())
}

pub(crate) async fn read_one(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
) -> Result<Unconfirmed, Error> {
    Ok(read(connection, &[(app, user)]).await?.remove(&(app, user)).unwrap_or_default())
}

/// Removes the secrets, push targets and unproven web push subscriptions of the users' unproven devices. The caller must have locked the
/// users. Push tokens stay in the profile: the caller removes them with the addresses.
pub(crate) async fn end_devices(
    connection: &mut PgConnection,
    users: &[(AppId, UserNumber)],
) -> Result<(), Error> {
    if users.is_empty() {
        return Ok(());
    }
    let (apps, numbers): (Vec<i64>, Vec<i64>) = users.iter().map(|(app, user)| (app.0, user.0)).unzip();
    sqlx::query!(
        "DELETE FROM web_push_subscription s USING unnest($1::bigint[], $2::bigint[]) AS named (app_id, number), device d
         WHERE (s.app_id, s.user_number) = (named.app_id, named.number)
           AND (d.app_id, d.user_number, d.device_id) = (s.app_id, s.user_number, s.device_id)
           AND NOT (s.proven AND d.proven)",
        &apps,
        &numbers
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE device d SET proof_digest = NULL, push_target = NULL
         FROM unnest($1::bigint[], $2::bigint[]) AS named (app_id, number)
         WHERE (d.app_id, d.user_number) = (named.app_id, named.number) AND NOT d.proven",
        &apps,
        &numbers
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends the unproven targets of many users, if the app guards addresses. Locks the users that have any, and returns their number.
pub(crate) async fn end_many(
    connection: &mut PgConnection,
    app: AppId,
    users: &[UserNumber],
) -> Result<usize, Error> {
    let named: Vec<_> = users.iter().map(|user| (app, *user)).collect();
    let ending =
        |(key, unconfirmed): ((AppId, UserNumber), Unconfirmed)| unconfirmed.has_any().then_some(key);
    let found: Vec<_> = read(connection, &named).await?.into_iter().filter_map(ending).collect();
    if found.is_empty() {
        return Ok(0);
    }
    let numbers: Vec<i64> = found.iter().map(|(_, user)| user.0).collect();
    let rows = sqlx::query!(
        r#"SELECT number, profile AS "profile: Json<Object>" FROM app_user
         WHERE app_id = $1 AND number = ANY($2) ORDER BY number FOR NO KEY UPDATE"#,
        app.0,
        &numbers
    )
    .fetch_all(&mut *connection)
    .await?;
    // Read again, because a device may have replaced its token before its user was locked.
    let unconfirmed = read(connection, &found).await?;
    for row in rows {
        let user = UserNumber(row.number);
        let Some(unconfirmed) = unconfirmed.get(&(app, user)) else { continue };
        let after = unconfirmed.addresses.removed_from(&row.profile.0);
        write_ended(connection, app, user, &after).await?;
        let tokens = TokenChange::patched(&row.profile.0, &after);
        push_token::record(connection, &[(app, user, tokens)], Naming::Registers).await?;
    }
    end_devices(connection, &found).await?;
    Ok(found.len())
}

async fn write_ended(
    connection: &mut PgConnection,
    app: AppId,
    user: UserNumber,
    profile: &Object,
) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE app_user SET profile = $3, unproven = '[]', updated_at = now() WHERE app_id = $1 AND number = $2",
        app.0,
        user.0,
        Json(profile) as _
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns [`Refusal::AddressGuarded`] if the app demands proofs, which a gateway may know only some seconds later. Until the transaction
/// ends, the app cannot start to demand proofs.
pub(crate) async fn admit_unproven(connection: &mut PgConnection, app: AppId) -> Result<(), Error> {
    sqlx::query!("SELECT pg_advisory_xact_lock_shared(hashtextextended('unproven targets', $1))", app.0)
        .execute(&mut *connection)
        .await?;
    let demands_proofs =
        sqlx::query_scalar!(r#"SELECT secure_mode OR hmac AS "demands!" FROM app WHERE id = $1"#, app.0)
            .fetch_optional(connection)
            .await?;
    if demands_proofs == Some(true) { Err(Refusal::AddressGuarded.into()) } else { Ok(()) }
}

/// Waits for the transactions that register unproven targets in the app, and blocks others until the transaction ends.
pub(crate) async fn block_unproven(connection: &mut PgConnection, app: AppId) -> Result<(), Error> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('unproven targets', $1))", app.0)
        .execute(connection)
        .await?;
    Ok(())
}

impl Directory<'_> {
    /// Ends the unproven targets of one user, if the app guards addresses. Usually there are none, and this only reads.
    pub async fn end_unproven_of(self, app: AppId, user: UserNumber) -> Result<(), Error> {
        let mut connection = self.0.pool.acquire().await?;
        let unconfirmed = read_one(&mut connection, app, user).await?;
        drop(connection);
        if unconfirmed.has_any() {
            let mut transaction = self.0.begin().await?;
            end_many(&mut transaction, app, &[user]).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    /// After an error, some users may still have their unproven targets; repeat the call.
    pub(crate) async fn end_unproven(self, app: AppId) -> Result<usize, Error> {
        let store: &Store = self.0;
        let (mut after, mut ended) = (0, 0);
        loop {
            let users = sqlx::query_scalar!(
                "SELECT number FROM app_user WHERE app_id = $1 AND number > $2 ORDER BY number LIMIT $3",
                app.0,
                after,
                BATCH
            )
            .fetch_all(&store.pool)
            .await?;
            let Some(last) = users.last() else { return Ok(ended) };
            after = *last;
            let users: Vec<_> = users.into_iter().map(UserNumber).collect();
            let mut transaction = store.begin().await?;
            ended += end_many(&mut transaction, app, &users).await?;
            transaction.commit().await?;
        }
    }
}
