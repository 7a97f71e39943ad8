pub mod merge;
pub mod proof;
pub mod search;
mod update;
pub(crate) mod writers;

use std::sync::Arc;

use domain::content::Object;
use domain::profile::{Author, Change};
use domain::{AppId, Timestamp, UserNumber};
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::control::quota::{self, Quota};
use crate::database::slots::Slot;
use crate::directory::user::proof::Unconfirmed;
use crate::directory::user::update::{ProfileUpdate, Version, compute};
use crate::{Directory, Error};

/// After this number of races with other writers, a change is computed with the user's row locked, which always succeeds.
const RACES: usize = 4;

#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Never reused.
    pub number: UserNumber,
    pub identifier: String,
    pub profile: Object,
    pub created_at: Timestamp,
}

impl Directory<'_> {
    pub async fn find_user(self, app: AppId, identifier: &str) -> Result<Option<User>, Error> {
        let row = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND identifier = $2"#,
            app.0,
            identifier
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(User::from))
    }

    /// In order of creation.
    pub async fn list_users(
        self,
        app: AppId,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number > $2 ORDER BY number LIMIT $3"#,
            app.0,
            after.map_or(0, |number| number.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// Returns up to `most` identifiers on either side of the place that this one has in their order.
    pub async fn neighbouring_identifiers(
        self,
        app: AppId,
        identifier: &str,
        most: i64,
    ) -> Result<Vec<String>, Error> {
        let found = sqlx::query_scalar!(
            r#"SELECT identifier AS "identifier!" FROM (
                 (SELECT identifier FROM app_user WHERE app_id = $1 AND identifier < $2 ORDER BY identifier DESC LIMIT $3)
                 UNION ALL
                 (SELECT identifier FROM app_user WHERE app_id = $1 AND identifier > $2 ORDER BY identifier LIMIT $3)
               ) AS near"#,
            app.0,
            identifier,
            most
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(found)
    }

    pub async fn known_identifiers(self, app: AppId, identifiers: &[&str]) -> Result<Vec<String>, Error> {
        let known = sqlx::query_scalar!(
            "SELECT identifier FROM app_user WHERE app_id = $1 AND identifier = ANY($2)",
            app.0,
            identifiers as &[&str]
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(known)
    }

    /// None if the identifier is taken.
    pub async fn create_user(
        self,
        app: AppId,
        identifier: &str,
        pairs: Object,
    ) -> Result<Option<User>, Error> {
        let nothing = (Object::new(), Unconfirmed::default());
        let update = compute(&Change::Merge(pairs), &nothing, Author::App)?;
        self.insert_user(app, identifier, &update, Author::App).await
    }

    /// Creates the user if necessary.
    pub async fn merge_user(self, app: AppId, identifier: &str, pairs: Object) -> Result<User, Error> {
        self.change_profile(app, identifier, Change::Merge(pairs), Author::App).await
    }

    /// Changes the user's profile, and creates the user if necessary. Concurrent changes are not lost: a change is computed from one
    /// version of the profile and replaces only this version. Writers in this process wait for each other. If another process changes the
    /// profile during each of four tries, the change is computed with the row locked.
    pub async fn change_profile(
        self,
        app: AppId,
        identifier: &str,
        change: Change,
        author: Author,
    ) -> Result<User, Error> {
        let _turn = self.0.writers.turn(app, identifier).await;
        let change = Arc::new(change);
        for _ in 0..RACES {
            let before = self.find_version(app, identifier).await?;
            let computed = self.compute_change(app, &change, before.as_ref(), author).await?;
            if let Some(user) = self.replace_version(app, identifier, before, computed, author).await? {
                return Ok(user);
            }
        }
        let slot = self.0.writers.slot(app).await;
        self.change_locked(app, identifier, &change, author, slot).await
    }

    async fn find_version(self, app: AppId, identifier: &str) -> Result<Option<Version>, Error> {
        let mut connection = self.0.pool.acquire().await?;
        let row = sqlx::query!(
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at, version FROM app_user
             WHERE app_id = $1 AND identifier = $2"#,
            app.0,
            identifier
        )
        .fetch_optional(&mut *connection)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let user = User {
            number: UserNumber(row.number),
            identifier: row.identifier,
            profile: row.profile.0,
            created_at: row.created_at.into(),
        };
        // Read after the profile: a change of these addresses changes the version too.
        let unconfirmed = proof::read_one(&mut connection, app, user.number).await?;
        Ok(Some(Version { user, version: row.version, unconfirmed }))
    }

    /// A merge is cheap and is computed immediately. A patch may be expensive, so it waits for a slot and runs on a blocking thread.
    async fn compute_change(
        self,
        app: AppId,
        change: &Arc<Change>,
        before: Option<&Version>,
        author: Author,
    ) -> Result<ProfileUpdate, Error> {
        let before = before
            .map(|version| (version.user.profile.clone(), version.unconfirmed.clone()))
            .unwrap_or_default();
        if let Change::Merge(_) = **change {
            return Ok(compute(change, &before, author)?);
        }
        let change = Arc::clone(change);
        let slot = self.0.writers.slot(app).await;
        let work = move || compute(&change, &before, author);
        let (computed, _) = self.0.writers.compute(slot, work).await?;
        Ok(computed?)
    }

    /// Returns None if another writer has changed the version or created the user meanwhile.
    async fn replace_version(
        self,
        app: AppId,
        identifier: &str,
        before: Option<Version>,
        update: ProfileUpdate,
        author: Author,
    ) -> Result<Option<User>, Error> {
        let Some(Version { mut user, version, unconfirmed }) = before else {
            return self.insert_user(app, identifier, &update, author).await;
        };
        if update.changes_nothing(&user, &unconfirmed) {
            return Ok(Some(user));
        }
        let mut transaction = self.0.begin().await?;
        let replaced = sqlx::query!(
            "UPDATE app_user SET profile = $3, unproven = $5, updated_at = now()
             WHERE app_id = $1 AND number = $2 AND version = $4",
            app.0,
            user.number.0,
            Json(&update.after) as _,
            version,
            Json(&update.unproven) as _
        )
        .execute(&mut *transaction)
        .await?;
        if replaced.rows_affected() == 0 {
            return Ok(None);
        }
        update.record(&mut transaction, app, user.number, author).await?;
        transaction.commit().await?;
        user.profile = update.after;
        Ok(Some(user))
    }

    /// None if the identifier is taken.
    async fn insert_user(
        self,
        app: AppId,
        identifier: &str,
        update: &ProfileUpdate,
        author: Author,
    ) -> Result<Option<User>, Error> {
        let mut transaction = self.0.begin().await?;
        let row = sqlx::query_as!(
            UserRow,
            r#"INSERT INTO app_user (app_id, identifier, profile, unproven) VALUES ($1, $2, $3, $4)
             ON CONFLICT (app_id, identifier) DO NOTHING
             RETURNING number, identifier, profile AS "profile: Json<Object>", created_at"#,
            app.0,
            identifier,
            Json(&update.after) as _,
            Json(&update.unproven) as _
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let user = row.map(User::from);
        if let Some(user) = &user {
            if author != Author::App {
                quota::check(&mut transaction, app, Quota::Users).await?;
            }
            update.record(&mut transaction, app, user.number, author).await?;
        }
        transaction.commit().await?;
        Ok(user)
    }

    /// The caller acquires the slot first: waiting for a slot while the row is locked would block other writers.
    async fn change_locked(
        self,
        app: AppId,
        identifier: &str,
        change: &Arc<Change>,
        author: Author,
        slot: Slot,
    ) -> Result<User, Error> {
        let mut transaction = self.0.begin().await?;
        let (mut user, _) = lock_or_create(&mut transaction, app, identifier, author).await?;
        let unconfirmed = proof::read_one(&mut transaction, app, user.number).await?;
        let change = Arc::clone(change);
        let before = (user.profile.clone(), unconfirmed.clone());
        let work = move || compute(&change, &before, author);
        let (computed, _slot) = self.0.writers.compute(slot, work).await?;
        write_computed(&mut transaction, app, (&mut user, &unconfirmed), computed?, author).await?;
        transaction.commit().await?;
        Ok(user)
    }
}

/// Creates the user if necessary. The user's row stays locked until the transaction ends. After an error, the caller must not commit the
/// transaction.
pub(crate) async fn merge_locked(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    pairs: &Object,
    author: Author,
) -> Result<UserNumber, Error> {
    let (mut user, created) = lock_or_create(connection, app, identifier, author).await?;
    if created && pairs.is_empty() {
        return Ok(user.number);
    }
    let unconfirmed = proof::read_one(connection, app, user.number).await?;
    let before = (user.profile.clone(), unconfirmed.clone());
    let computed = compute(&Change::Merge(pairs.clone()), &before, author)?;
    write_computed(connection, app, (&mut user, &unconfirmed), computed, author).await?;
    Ok(user.number)
}

async fn write_computed(
    connection: &mut PgConnection,
    app: AppId,
    (user, unconfirmed): (&mut User, &Unconfirmed),
    update: ProfileUpdate,
    author: Author,
) -> Result<(), Error> {
    if update.changes_nothing(user, unconfirmed) {
        return Ok(());
    }
    if update.after != user.profile || update.unproven != unconfirmed.addresses {
        sqlx::query!(
            "UPDATE app_user SET profile = $3, unproven = $4, updated_at = now() WHERE app_id = $1 AND number = $2",
            app.0,
            user.number.0,
            Json(&update.after) as _,
            Json(&update.unproven) as _
        )
        .execute(&mut *connection)
        .await?;
    }
    update.record(connection, app, user.number, author).await?;
    user.profile = update.after;
    Ok(())
}

/// Locks the user's row until the transaction ends. Inserts of rows that refer to the user, such as new devices, do not wait for this lock.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
) -> Result<Option<User>, Error> {
    let row = sqlx::query_as!(
        UserRow,
        r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
         WHERE app_id = $1 AND identifier = $2 FOR NO KEY UPDATE"#,
        app.0,
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(User::from))
}

/// Returns the user, locked until the transaction ends, and true if this call created the user. Checks the quota of users unless `author`
/// is the app's backend.
pub(crate) async fn lock_or_create(
    connection: &mut PgConnection,
    app: AppId,
    identifier: &str,
    author: Author,
) -> Result<(User, bool), Error> {
    if let Some(user) = lock(connection, app, identifier).await? {
        return Ok((user, false));
    }
    // If another transaction has just created the user, the update changes nothing, but locks and returns that row.
    let row = sqlx::query!(
        r#"INSERT INTO app_user (app_id, identifier) VALUES ($1, $2)
         ON CONFLICT (app_id, identifier) DO UPDATE SET identifier = excluded.identifier
         RETURNING number, identifier, profile AS "profile: Json<Object>", created_at, xmax = 0 AS "created!""#,
        app.0,
        identifier
    )
    .fetch_one(&mut *connection)
    .await?;
    if row.created && author != Author::App {
        quota::check(connection, app, Quota::Users).await?;
    }
    let user = User {
        number: UserNumber(row.number),
        identifier: row.identifier,
        profile: row.profile.0,
        created_at: row.created_at.into(),
    };
    Ok((user, row.created))
}

struct UserRow {
    number: UserNumber,
    identifier: String,
    profile: Json<Object>,
    created_at: Timestamp,
}

impl From<UserRow> for User {
    fn from(row: UserRow) -> User {
        let UserRow { number, identifier, profile: Json(profile), created_at } = row;
        User { number, identifier, profile, created_at }
    }
}
