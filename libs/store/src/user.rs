//! Users and their profiles.

pub mod merge;
pub(crate) mod writers;

use std::sync::Arc;

use domain::content::Object;
use domain::profile::{Addresses, Change, Refusal, TokenChange};
use domain::{AppId, Timestamp, UserNumber};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use crate::push_token::{self, Naming};
use crate::slots::Slot;
use crate::{Error, Store};

/// How often a change is computed outside the lock of the user's row. A writer that lost so many races computes under the
/// lock, so that it surely ends.
const RACES: usize = 4;

/// A user of an app.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Internal number, never reused.
    pub number: UserNumber,
    /// The app's own identifier of the user.
    pub identifier: String,
    /// Key-value pairs.
    pub profile: Object,
    /// When the service first heard of the user.
    pub created_at: Timestamp,
}

impl Store {
    /// The user with this identifier.
    ///
    /// # Errors
    /// The database failed.
    pub async fn find_user(&self, app: AppId, identifier: &str) -> Result<Option<User>, Error> {
        let row = sqlx::query(
            "SELECT number, identifier, profile, created_at FROM app_user WHERE app_id = $1 AND identifier = $2",
        )
        .bind(app.0)
        .bind(identifier)
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref().map(read_user).transpose()
    }

    /// Up to `limit` users of the app in order of creation, after the one with this number.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list_users(
        &self,
        app: AppId,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query(
            "SELECT number, identifier, profile, created_at FROM app_user
             WHERE app_id = $1 AND number > $2 ORDER BY number LIMIT $3",
        )
        .bind(app.0)
        .bind(after.map_or(0, |number| number.0))
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(read_user).collect()
    }

    /// Which of the identifiers the app has users for.
    ///
    /// # Errors
    /// The database failed.
    pub async fn known_identifiers(&self, app: AppId, identifiers: &[&str]) -> Result<Vec<String>, Error> {
        let known =
            sqlx::query_scalar("SELECT identifier FROM app_user WHERE app_id = $1 AND identifier = ANY($2)")
                .bind(app.0)
                .bind(identifiers)
                .fetch_all(&self.pool)
                .await?;
        Ok(known)
    }

    /// Creates a user; None when the identifier is taken.
    ///
    /// # Errors
    /// The profile is refused, or the database failed.
    pub async fn create_user(
        &self,
        app: AppId,
        identifier: &str,
        pairs: Object,
    ) -> Result<Option<User>, Error> {
        let Computed { after, tokens } = compute(&Change::Merge(pairs), &Object::new(), Addresses::Open)?;
        self.insert_user(app, identifier, &after, tokens).await
    }

    /// Merges `pairs` onto the profile; creates the user if missing.
    ///
    /// # Errors
    /// The profile is refused, or the database failed.
    pub async fn merge_user(&self, app: AppId, identifier: &str, pairs: Object) -> Result<User, Error> {
        self.change_profile(app, identifier, Change::Merge(pairs), Addresses::Open).await
    }

    /// Changes the profile; creates the user if missing. No write is lost: the change is computed from a version of the
    /// profile, and replaces that version alone. Writers of one profile in this process take turns; one that keeps losing
    /// to those of other processes computes under the lock of the row.
    ///
    /// # Errors
    /// The change is refused, and no user was created, or the database failed.
    pub async fn change_profile(
        &self,
        app: AppId,
        identifier: &str,
        change: Change,
        addresses: Addresses,
    ) -> Result<User, Error> {
        let _turn = self.writers.turn(app, identifier).await;
        let change = Arc::new(change);
        for _ in 0..RACES {
            let before = self.find_version(app, identifier).await?;
            let computed = self.computed(app, &change, before.as_ref(), addresses).await?;
            if let Some(user) = self.replace_version(app, identifier, before, computed).await? {
                return Ok(user);
            }
        }
        let slot = self.writers.slot(app).await;
        self.change_locked(app, identifier, &change, addresses, slot).await
    }

    async fn find_version(&self, app: AppId, identifier: &str) -> Result<Option<(User, i64)>, Error> {
        let row = sqlx::query(
            "SELECT number, identifier, profile, created_at, version FROM app_user
             WHERE app_id = $1 AND identifier = $2",
        )
        .bind(app.0)
        .bind(identifier)
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| Ok((read_user(&row)?, row.try_get("version")?))).transpose()
    }

    /// Computes a change: a merge here, since it takes no longer than it took to read its pairs; a patch in a slot of the
    /// app.
    async fn computed(
        &self,
        app: AppId,
        change: &Arc<Change>,
        before: Option<&(User, i64)>,
        addresses: Addresses,
    ) -> Result<Computed, Error> {
        let nothing = Object::new();
        let profile = before.map_or(&nothing, |(user, _)| &user.profile);
        if let Change::Merge(_) = **change {
            return Ok(compute(change, profile, addresses)?);
        }
        let (change, profile) = (Arc::clone(change), profile.clone());
        let slot = self.writers.slot(app).await;
        let work = move || compute(&change, &profile, addresses);
        let (computed, _) = self.writers.compute(slot, work).await?;
        Ok(computed?)
    }

    /// Writes what was computed from a version, or from no user. None: that is not the version any more.
    async fn replace_version(
        &self,
        app: AppId,
        identifier: &str,
        before: Option<(User, i64)>,
        Computed { after, tokens }: Computed,
    ) -> Result<Option<User>, Error> {
        let Some((mut user, version)) = before else {
            return self.insert_user(app, identifier, &after, tokens).await;
        };
        if after == user.profile && tokens.is_empty() {
            return Ok(Some(user));
        }
        let mut transaction = self.begin().await?;
        let replaced = sqlx::query(
            "UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2 AND version = $4",
        )
        .bind(app.0)
        .bind(user.number.0)
        .bind(Json(&after))
        .bind(version)
        .execute(&mut *transaction)
        .await?;
        if replaced.rows_affected() == 0 {
            return Ok(None);
        }
        push_token::record(&mut transaction, &[(app, user.number, tokens)], Naming::Registers).await?;
        transaction.commit().await?;
        user.profile = after;
        Ok(Some(user))
    }

    /// None: the identifier is taken.
    async fn insert_user(
        &self,
        app: AppId,
        identifier: &str,
        profile: &Object,
        tokens: TokenChange,
    ) -> Result<Option<User>, Error> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "INSERT INTO app_user (app_id, identifier, profile) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, identifier) DO NOTHING RETURNING number, identifier, profile, created_at",
        )
        .bind(app.0)
        .bind(identifier)
        .bind(Json(profile))
        .fetch_optional(&mut *transaction)
        .await?;
        let user = row.as_ref().map(read_user).transpose()?;
        if let Some(user) = &user {
            push_token::record(&mut transaction, &[(app, user.number, tokens)], Naming::Registers).await?;
        }
        transaction.commit().await?;
        Ok(user)
    }

    /// Changes the profile under the lock of its row. The slot was taken before the lock.
    async fn change_locked(
        &self,
        app: AppId,
        identifier: &str,
        change: &Arc<Change>,
        addresses: Addresses,
        slot: Slot,
    ) -> Result<User, Error> {
        let mut transaction = self.begin().await?;
        let mut user = lock_or_create(&mut transaction, app, identifier).await?;
        let (change, profile) = (Arc::clone(change), user.profile.clone());
        let work = move || compute(&change, &profile, addresses);
        let (computed, _slot) = self.writers.compute(slot, work).await?;
        write_computed(&mut transaction, app, &mut user, computed?).await?;
        transaction.commit().await?;
        Ok(user)
    }
}

/// A profile after a change, and what the change did to its push tokens.
struct Computed {
    after: Object,
    tokens: TokenChange,
}

fn compute(change: &Change, before: &Object, addresses: Addresses) -> Result<Computed, Refusal> {
    let after = change.apply(before, addresses)?;
    let tokens = change.tokens(before, &after);
    Ok(Computed { after, tokens })
}

/// Merges `pairs` onto the profile in a transaction that goes on to write more of the user; creates the user if missing.
/// Its row is locked until the transaction ends.
///
/// # Errors
/// The profile is refused, or the database failed; the transaction must then not be committed.
pub(crate) async fn merge_locked(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    pairs: &Object,
) -> Result<UserNumber, Error> {
    let mut user = lock_or_create(connection, app, identifier).await?;
    if !pairs.is_empty() {
        let computed = compute(&Change::Merge(pairs.clone()), &user.profile, Addresses::Open)?;
        write_computed(connection, app, &mut user, computed).await?;
    }
    Ok(user.number)
}

/// Writes what was computed from a profile whose row is locked.
async fn write_computed(
    connection: &mut PgConnection,
    app: AppId,
    user: &mut User,
    Computed { after, tokens }: Computed,
) -> Result<(), Error> {
    if after != user.profile {
        sqlx::query("UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2")
            .bind(app.0)
            .bind(user.number.0)
            .bind(Json(&after))
            .execute(&mut *connection)
            .await?;
        user.profile = after;
    }
    push_token::record(connection, &[(app, user.number, tokens)], Naming::Registers).await
}

/// Locks the user's row against other writers. References to the user, such as those of new devices, are not kept waiting.
async fn lock_or_create(connection: &mut PgConnection, app: AppId, identifier: &str) -> Result<User, Error> {
    let row = sqlx::query(
        "SELECT number, identifier, profile, created_at FROM app_user
         WHERE app_id = $1 AND identifier = $2 FOR NO KEY UPDATE",
    )
    .bind(app.0)
    .bind(identifier)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(row) = row {
        return read_user(&row);
    }
    // If the user was created meanwhile, the update that changes nothing locks and reads that row.
    let row = sqlx::query(
        "INSERT INTO app_user (app_id, identifier) VALUES ($1, $2)
         ON CONFLICT (app_id, identifier) DO UPDATE SET identifier = excluded.identifier
         RETURNING number, identifier, profile, created_at",
    )
    .bind(app.0)
    .bind(identifier)
    .fetch_one(connection)
    .await?;
    read_user(&row)
}

fn read_user(row: &PgRow) -> Result<User, Error> {
    let Json(profile) = row.try_get("profile")?;
    let created_at: chrono::DateTime<chrono::Utc> = row.try_get("created_at")?;
    Ok(User {
        number: UserNumber(row.try_get("number")?),
        identifier: row.try_get("identifier")?,
        profile,
        created_at: created_at.into(),
    })
}
