//! Users and their profiles.

use std::collections::BTreeMap;

use domain::content::Object;
use domain::{AppId, Timestamp, UserNumber, profile};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

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
        row.map(|row| read_user(&row)).transpose()
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
    /// The database failed.
    pub async fn create_user(
        &self,
        app: AppId,
        identifier: &str,
        pairs: Object,
    ) -> Result<Option<User>, Error> {
        let mut profile = Object::new();
        profile::merge(&mut profile, pairs);
        let row = sqlx::query(
            "INSERT INTO app_user (app_id, identifier, profile) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, identifier) DO NOTHING RETURNING number, identifier, profile, created_at",
        )
        .bind(app.0)
        .bind(identifier)
        .bind(Json(&profile))
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| read_user(&row)).transpose()
    }

    /// Merges `pairs` onto the profile; creates the user if missing.
    ///
    /// # Errors
    /// The database failed.
    pub async fn merge_user(&self, app: AppId, identifier: &str, pairs: Object) -> Result<User, Error> {
        let mut transaction = self.pool.begin().await?;
        let update = BTreeMap::from([((app, identifier), vec![&pairs])]);
        merge_users(&mut transaction, &update).await?;
        let row = sqlx::query(
            "SELECT number, identifier, profile, created_at FROM app_user WHERE app_id = $1 AND identifier = $2",
        )
        .bind(app.0)
        .bind(identifier)
        .fetch_optional(&mut *transaction)
        .await?;
        let user = read_user(&row.ok_or(Error::Unanswered("the user was erased meanwhile"))?)?;
        transaction.commit().await?;
        Ok(user)
    }
}

/// Creates what is missing of the named users, then merges onto each, in order, the pairs given for it. Locks rows
/// in key order.
///
/// # Errors
/// The database failed; the transaction is then void.
pub(crate) async fn merge_users(
    connection: &mut PgConnection,
    updates: &BTreeMap<(AppId, &str), Vec<&Object>>,
) -> Result<(), Error> {
    if updates.is_empty() {
        return Ok(());
    }
    let apps: Vec<i64> = updates.keys().map(|(app, _)| app.0).collect();
    let identifiers: Vec<&str> = updates.keys().map(|(_, identifier)| *identifier).collect();
    sqlx::query(
        "INSERT INTO app_user (app_id, identifier) SELECT * FROM unnest($1::bigint[], $2::text[])
         ON CONFLICT (app_id, identifier) DO NOTHING",
    )
    .bind(&apps)
    .bind(&identifiers)
    .execute(&mut *connection)
    .await?;
    let rows = sqlx::query(
        "SELECT app_id, number, identifier, profile FROM app_user
         JOIN unnest($1::bigint[], $2::text[]) AS named (app_id, identifier) USING (app_id, identifier)
         ORDER BY app_id, number FOR UPDATE OF app_user",
    )
    .bind(&apps)
    .bind(&identifiers)
    .fetch_all(&mut *connection)
    .await?;

    let mut changed: (Vec<i64>, Vec<i64>, Vec<Json<Object>>) = Default::default();
    for row in rows {
        let (app, number): (i64, i64) = (row.try_get("app_id")?, row.try_get("number")?);
        let identifier: &str = row.try_get("identifier")?;
        let Json(before): Json<Object> = row.try_get("profile")?;
        let mut after = before.clone();
        for &pairs in updates.get(&(AppId(app), identifier)).into_iter().flatten() {
            profile::merge(&mut after, pairs.clone());
        }
        if after != before {
            changed.0.push(app);
            changed.1.push(number);
            changed.2.push(Json(after));
        }
    }
    sqlx::query(
        "UPDATE app_user SET profile = new.profile, updated_at = now()
         FROM unnest($1::bigint[], $2::bigint[], $3::jsonb[]) AS new (app_id, number, profile)
         WHERE app_user.app_id = new.app_id AND app_user.number = new.number",
    )
    .bind(&changed.0)
    .bind(&changed.1)
    .bind(&changed.2)
    .execute(connection)
    .await?;
    Ok(())
}

fn read_user(row: &sqlx::postgres::PgRow) -> Result<User, Error> {
    let Json(profile) = row.try_get("profile")?;
    let created_at: chrono::DateTime<chrono::Utc> = row.try_get("created_at")?;
    Ok(User {
        number: UserNumber(row.try_get("number")?),
        identifier: row.try_get("identifier")?,
        profile,
        created_at: created_at.into(),
    })
}
