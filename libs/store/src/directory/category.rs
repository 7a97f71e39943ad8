//! Notification categories of an app.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use domain::{AppId, CategoryId, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::control::quota::{self, Quota};
use crate::{Directory, Error};

/// A category to create.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewCategory<'a> {
    /// Unique in the app.
    pub identifier: &'a str,
    /// Display name.
    pub name: &'a str,
    /// True if user preferences are ignored for this category.
    pub critical: bool,
    /// True if clients should hide the category's items in the inboxes that they show.
    pub hide_in_in_app: bool,
    /// True if clients should hide the category in their preference screens.
    pub hide_in_preference_manager: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    pub id: CategoryId,
    /// Unique in the app.
    pub identifier: String,
    /// Display name.
    pub name: String,
    /// True if clients should hide the category's items in the inboxes that they show. Lists and counters of the API
    /// include them.
    pub hide_in_in_app: bool,
    /// True if clients should hide the category in their preference screens.
    pub hide_in_preference_manager: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Directory<'_> {
    /// Creates a category; returns None if the identifier is taken.
    ///
    /// # Errors
    /// The quota of categories is reached, or the database failed.
    pub async fn create_category(
        self,
        app: AppId,
        category: NewCategory<'_>,
    ) -> Result<Option<Category>, Error> {
        let mut transaction = self.0.begin().await?;
        let row = sqlx::query(
            "INSERT INTO category (app_id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (app_id, identifier) DO NOTHING
             RETURNING id, identifier, name, hide_in_in_app, hide_in_preference_manager, created_at, updated_at",
        )
        .bind(app.0)
        .bind(category.identifier)
        .bind(category.name)
        .bind(category.critical)
        .bind(category.hide_in_in_app)
        .bind(category.hide_in_preference_manager)
        .fetch_optional(&mut *transaction)
        .await?;
        if row.is_some() {
            quota::check(&mut transaction, app, Quota::Categories).await?;
        }
        transaction.commit().await?;
        Ok(row.as_ref().map(read_category).transpose()?)
    }

    /// Lists up to `limit` categories of the app after the id `after`, in order of creation.
    pub async fn list_categories(
        self,
        app: AppId,
        after: Option<CategoryId>,
        limit: i64,
    ) -> Result<Vec<Category>, Error> {
        let rows = sqlx::query(
            "SELECT id, identifier, name, hide_in_in_app, hide_in_preference_manager, created_at, updated_at
             FROM category WHERE app_id = $1 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(app.0)
        .bind(after.map_or(0, |after| after.0))
        .bind(limit)
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.iter().map(read_category).collect::<Result<_, _>>()?)
    }

    /// Returns those of the ids that belong to categories of the app.
    pub async fn known_categories(
        self,
        app: AppId,
        ids: &BTreeSet<CategoryId>,
    ) -> Result<BTreeSet<CategoryId>, Error> {
        let known = sqlx::query_scalar("SELECT id FROM category WHERE app_id = $1 AND id = ANY($2)")
            .bind(app.0)
            .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
            .fetch_all(&self.0.pool)
            .await?;
        Ok(known.into_iter().map(CategoryId).collect())
    }

    /// Deletes a category and the users' preferences for it. Inbox items of the category stay, without a category. A later
    /// send that names the identifier creates the category again. Returns false if the app has no such category.
    pub async fn delete_category(self, app: AppId, id: CategoryId) -> Result<bool, Error> {
        let deleted = sqlx::query("DELETE FROM category WHERE app_id = $1 AND id = $2")
            .bind(app.0)
            .bind(id.0)
            .execute(&self.0.pool)
            .await?;
        Ok(deleted.rows_affected() > 0)
    }
}

fn read_category(row: &PgRow) -> Result<Category, sqlx::Error> {
    Ok(Category {
        id: CategoryId(row.try_get("id")?),
        identifier: row.try_get("identifier")?,
        name: row.try_get("name")?,
        hide_in_in_app: row.try_get("hide_in_in_app")?,
        hide_in_preference_manager: row.try_get("hide_in_preference_manager")?,
        created_at: row.try_get::<DateTime<Utc>, _>("created_at")?.into(),
        updated_at: row.try_get::<DateTime<Utc>, _>("updated_at")?.into(),
    })
}
