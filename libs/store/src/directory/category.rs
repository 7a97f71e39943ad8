use std::collections::BTreeSet;

use domain::{AppId, CategoryId, Timestamp};

use crate::control::quota::{self, Quota};
use crate::{Directory, Error};

#[derive(Clone, Copy, Debug, Default)]
pub struct NewCategory<'a> {
    pub identifier: &'a str,
    pub name: &'a str,
    /// User preferences are ignored for a critical category.
    pub critical: bool,
    /// Asks clients to hide the category's items in the inboxes that they show.
    pub hide_in_in_app: bool,
    /// Asks clients to hide the category in their preference screens.
    pub hide_in_preference_manager: bool,
    /// Position on preference screens, ascending. Categories with the same one are in order of creation.
    pub order: i32,
}

/// Values of a category; None if a value stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CategoryValues<'a> {
    pub name: Option<&'a str>,
    pub critical: Option<bool>,
    pub hide_in_in_app: Option<bool>,
    pub hide_in_preference_manager: Option<bool>,
    pub order: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    pub id: CategoryId,
    pub identifier: String,
    pub name: String,
    /// User preferences are ignored for a critical category.
    pub critical: bool,
    /// Asks clients to hide the category's items. Lists and counters of the API include them.
    pub hide_in_in_app: bool,
    pub hide_in_preference_manager: bool,
    pub order: i32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Directory<'_> {
    /// None if the identifier is taken.
    pub async fn create_category(
        self,
        app: AppId,
        category: NewCategory<'_>,
    ) -> Result<Option<Category>, Error> {
        let mut transaction = self.0.begin().await?;
        let created = sqlx::query_as!(
            Category,
            r#"INSERT INTO category (app_id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (app_id, identifier) DO NOTHING
             RETURNING id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order",
               created_at, updated_at"#,
            app.0,
            category.identifier,
            category.name,
            category.critical,
            category.hide_in_in_app,
            category.hide_in_preference_manager,
            category.order
        )
        .fetch_optional(&mut *transaction)
        .await?;
        if created.is_some() {
            quota::check(&mut transaction, app, Quota::Categories).await?;
        }
        transaction.commit().await?;
        Ok(created)
    }

    /// Creates a category, or changes the given values of one. Without a name, the name of a new category is its identifier.
    pub async fn put_category(
        self,
        app: AppId,
        identifier: &str,
        values: CategoryValues<'_>,
    ) -> Result<Category, Error> {
        let mut transaction = self.0.begin().await?;
        let row = sqlx::query!(
            r#"INSERT INTO category AS known
               (app_id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position)
             VALUES ($1, $2::text, coalesce($3::text, $2::text), coalesce($4::boolean, false), coalesce($5::boolean, false),
               coalesce($6::boolean, false), coalesce($7::integer, 0))
             ON CONFLICT (app_id, identifier) DO UPDATE SET
               name = coalesce($3::text, known.name), critical = coalesce($4::boolean, known.critical),
               hide_in_in_app = coalesce($5::boolean, known.hide_in_in_app),
               hide_in_preference_manager = coalesce($6::boolean, known.hide_in_preference_manager),
               position = coalesce($7::integer, known.position), updated_at = now()
             RETURNING id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position, created_at,
               updated_at, xmax = 0 AS "is_new!""#,
            app.0,
            identifier,
            values.name,
            values.critical,
            values.hide_in_in_app,
            values.hide_in_preference_manager,
            values.order
        )
        .fetch_one(&mut *transaction)
        .await?;
        if row.is_new {
            quota::check(&mut transaction, app, Quota::Categories).await?;
        }
        transaction.commit().await?;
        Ok(Category {
            id: CategoryId(row.id),
            identifier: row.identifier,
            name: row.name,
            critical: row.critical,
            hide_in_in_app: row.hide_in_in_app,
            hide_in_preference_manager: row.hide_in_preference_manager,
            order: row.position,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        })
    }

    /// In order of creation.
    pub async fn list_categories(
        self,
        app: AppId,
        after: Option<CategoryId>,
        limit: i64,
    ) -> Result<Vec<Category>, Error> {
        let categories = sqlx::query_as!(
            Category,
            r#"SELECT id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order", created_at,
               updated_at
             FROM category WHERE app_id = $1 AND id > $2 ORDER BY id LIMIT $3"#,
            app.0,
            after.map_or(0, |after| after.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(categories)
    }

    pub async fn known_categories(
        self,
        app: AppId,
        ids: &BTreeSet<CategoryId>,
    ) -> Result<BTreeSet<CategoryId>, Error> {
        let known = sqlx::query_scalar!(
            "SELECT id FROM category WHERE app_id = $1 AND id = ANY($2)",
            app.0,
            &ids.iter().map(|id| id.0).collect::<Vec<_>>()
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(known.into_iter().map(CategoryId).collect())
    }

    /// Deletes a category and the users' preferences for it. Inbox items of the category stay, but then have no category. If a later send
    /// names the same identifier, the category is created again.
    pub async fn delete_category(self, app: AppId, id: CategoryId) -> Result<bool, Error> {
        let deleted = sqlx::query!("DELETE FROM category WHERE app_id = $1 AND id = $2", app.0, id.0)
            .execute(&self.0.pool)
            .await?;
        Ok(deleted.rows_affected() > 0)
    }
}
