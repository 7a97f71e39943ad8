//! Users and their profiles.

pub mod merge;

use domain::content::Object;
use domain::profile::{Author, Change};
use domain::{AppId, Timestamp, UserNumber};
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use crate::push_token::{self, Naming};
use crate::quota::{self, Quota};
use crate::{Error, Store};

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
        let change = Change::Merge(pairs);
        let profile = change.apply(&Object::new(), Author::App)?;
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "INSERT INTO app_user (app_id, identifier, profile) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, identifier) DO NOTHING RETURNING number, identifier, profile, created_at",
        )
        .bind(app.0)
        .bind(identifier)
        .bind(Json(&profile))
        .fetch_optional(&mut *transaction)
        .await?;
        let user = row.as_ref().map(read_user).transpose()?;
        if let Some(user) = &user {
            let tokens = change.tokens(&Object::new(), &user.profile);
            push_token::record(&mut transaction, &[(app, user.number, tokens)], Naming::Registers).await?;
        }
        transaction.commit().await?;
        Ok(user)
    }

    /// Merges `pairs` onto the profile; creates the user if missing.
    ///
    /// # Errors
    /// The profile is refused, or the database failed.
    pub async fn merge_user(&self, app: AppId, identifier: &str, pairs: Object) -> Result<User, Error> {
        self.change_profile(app, identifier, &Change::Merge(pairs), Author::App).await
    }

    /// Changes the profile; creates the user if missing. Writers of one profile take turns, so none is lost.
    ///
    /// # Errors
    /// The change is refused, and no user was created, or the database failed.
    pub async fn change_profile(
        &self,
        app: AppId,
        identifier: &str,
        change: &Change,
        author: Author,
    ) -> Result<User, Error> {
        let mut transaction = self.begin().await?;
        let user = change_profile(&mut transaction, app, identifier, change, author).await?;
        transaction.commit().await?;
        Ok(user)
    }
}

/// See [`Store::change_profile`].
///
/// # Errors
/// As there; the transaction must then not be committed.
pub(crate) async fn change_profile(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    change: &Change,
    author: Author,
) -> Result<User, Error> {
    let (mut user, _) = lock_or_create(connection, app, identifier, author).await?;
    let after = change.apply(&user.profile, author)?;
    let tokens = change.tokens(&user.profile, &after);
    if after != user.profile {
        sqlx::query("UPDATE app_user SET profile = $3, updated_at = now() WHERE app_id = $1 AND number = $2")
            .bind(app.0)
            .bind(user.number.0)
            .bind(Json(&after))
            .execute(&mut *connection)
            .await?;
        user.profile = after;
    }
    push_token::record(connection, &[(app, user.number, tokens)], Naming::Registers).await?;
    Ok(user)
}

/// The user, locked until the transaction ends.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
) -> Result<Option<User>, Error> {
    let row = sqlx::query(
        "SELECT number, identifier, profile, created_at FROM app_user
         WHERE app_id = $1 AND identifier = $2 FOR UPDATE",
    )
    .bind(app.0)
    .bind(identifier)
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(read_user).transpose()
}

/// The user, locked until the transaction ends, and whether this call created it. The quota of users holds for every
/// author but the app's backend.
pub(crate) async fn lock_or_create(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    author: Author,
) -> Result<(User, bool), Error> {
    if let Some(user) = lock(connection, app, identifier).await? {
        return Ok((user, false));
    }
    // Somebody may have created the user meanwhile; the update that changes nothing then locks and reads that row.
    let row = sqlx::query(
        "INSERT INTO app_user (app_id, identifier) VALUES ($1, $2)
         ON CONFLICT (app_id, identifier) DO UPDATE SET identifier = excluded.identifier
         RETURNING number, identifier, profile, created_at, xmax = 0 AS created",
    )
    .bind(app.0)
    .bind(identifier)
    .fetch_one(&mut *connection)
    .await?;
    let created = row.try_get("created")?;
    if created && author != Author::App {
        quota::check(connection, app, Quota::Users).await?;
    }
    Ok((read_user(&row)?, created))
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
