//! Notification categories of an app.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use domain::{AppId, CategoryId, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::control::quota::{self, Quota};
use crate::{Error, Store};

/// A category to create.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewCategory<'a> {
    /// The app's own identifier of it; unique in the app.
    pub identifier: &'a str,
    /// Display name.
    pub name: &'a str,
    /// Whether its notifications go out whatever users prefer.
    pub critical: bool,
    /// What clients are told of showing it in inboxes.
    pub hide_in_in_app: bool,
    /// What clients are told of showing it in preference screens.
    pub hide_in_preference_manager: bool,
}

/// A category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// The service's number of it.
    pub id: CategoryId,
    /// The app's own identifier of it; unique in the app.
    pub identifier: String,
    /// Display name.
    pub name: String,
    /// Whether clients should leave it out of the inboxes that they show; lists and counters do not.
    pub hide_in_in_app: bool,
    /// Whether clients should leave it out of their preference screens.
    pub hide_in_preference_manager: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Store {
    /// Creates a category; None when the identifier is taken.
    ///
    /// # Errors
    /// The quota of categories is reached, or the database failed.
    pub async fn create_category(
        &self,
        app: AppId,
        category: NewCategory<'_>,
    ) -> Result<Option<Category>, Error> {
        let mut transaction = self.begin().await?;
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

    /// Up to `limit` categories of the app in order of creation, after the one with this number.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list_categories(
        &self,
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
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(read_category).collect::<Result<_, _>>()?)
    }

    /// Which of these numbers are categories of the app.
    ///
    /// # Errors
    /// The database failed.
    pub async fn known_categories(
        &self,
        app: AppId,
        ids: &BTreeSet<CategoryId>,
    ) -> Result<BTreeSet<CategoryId>, Error> {
        let known = sqlx::query_scalar("SELECT id FROM category WHERE app_id = $1 AND id = ANY($2)")
            .bind(app.0)
            .bind(ids.iter().map(|id| id.0).collect::<Vec<_>>())
            .fetch_all(&self.pool)
            .await?;
        Ok(known.into_iter().map(CategoryId).collect())
    }

    /// Deletes a category and the preferences of it. Notifications stay as they are, without a category from then on;
    /// a send that names its identifier makes a new one. False: the app has no such category.
    ///
    /// # Errors
    /// The database failed.
    pub async fn delete_category(&self, app: AppId, id: CategoryId) -> Result<bool, Error> {
        let deleted = sqlx::query("DELETE FROM category WHERE app_id = $1 AND id = $2")
            .bind(app.0)
            .bind(id.0)
            .execute(&self.pool)
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
