//! Notification categories of an app.

use chrono::{DateTime, Utc};
use domain::{AppId, CategoryId, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::{Error, Store};

/// A category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// The service's number of it.
    pub id: CategoryId,
    /// The app's own identifier of it; unique in the app.
    pub identifier: String,
    /// Display name.
    pub name: String,
    /// Whether inboxes leave it out of what they show.
    pub hide_in_in_app: bool,
    /// Whether preference screens leave it out.
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
    /// The database failed.
    pub async fn create_category(
        &self,
        app: AppId,
        identifier: &str,
        name: &str,
    ) -> Result<Option<Category>, Error> {
        let row = sqlx::query(
            "INSERT INTO category (app_id, identifier, name) VALUES ($1, $2, $3)
             ON CONFLICT (app_id, identifier) DO NOTHING
             RETURNING id, identifier, name, hide_in_in_app, hide_in_preference_manager, created_at, updated_at",
        )
        .bind(app.0)
        .bind(identifier)
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.as_ref().map(read_category).transpose()?)
    }

    /// Every category of the app, in order of creation.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list_categories(&self, app: AppId) -> Result<Vec<Category>, Error> {
        let rows = sqlx::query(
            "SELECT id, identifier, name, hide_in_in_app, hide_in_preference_manager, created_at, updated_at
             FROM category WHERE app_id = $1 ORDER BY id",
        )
        .bind(app.0)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(read_category).collect::<Result<_, _>>()?)
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
