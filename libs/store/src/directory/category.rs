use std::collections::BTreeSet;

use domain::{Action, Actor, AppId, CategoryId, Timestamp};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::control::quota::{self, Quota};
use crate::database::audit::AuditEntry;
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

/// Result of a change of an object that the caller saw in an earlier state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenChange<T> {
    Changed(T),
    Unknown,
    /// The object was changed since the caller saw it.
    Overtaken,
}

impl Directory<'_> {
    /// Creates a category; an actor writes a row of the audit log. Returns None if the identifier is taken.
    pub async fn create_category(
        self,
        app: AppId,
        category: NewCategory<'_>,
        actor: Option<&Actor>,
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
        if let Some(created) = &created {
            quota::check(&mut transaction, app, Quota::Categories).await?;
            write_row(&mut transaction, app, actor, (None, Some(created))).await?;
        }
        transaction.commit().await?;
        Ok(created)
    }

    /// Creates a category, or changes the given values of one. Without a name, the name of a new category is its identifier. An actor writes a
    /// row of the audit log.
    pub async fn put_category(
        self,
        app: AppId,
        identifier: &str,
        values: CategoryValues<'_>,
        actor: Option<&Actor>,
    ) -> Result<Category, Error> {
        let mut transaction = self.0.begin().await?;
        let before = match actor {
            Some(_) => lock(&mut transaction, app, None, Some(identifier)).await?,
            None => None,
        };
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
        let category = Category {
            id: CategoryId(row.id),
            identifier: row.identifier,
            name: row.name,
            critical: row.critical,
            hide_in_in_app: row.hide_in_in_app,
            hide_in_preference_manager: row.hide_in_preference_manager,
            order: row.position,
            created_at: row.created_at.into(),
            updated_at: row.updated_at.into(),
        };
        write_row(&mut transaction, app, actor, (before.as_ref(), Some(&category))).await?;
        transaction.commit().await?;
        Ok(category)
    }

    /// Changes the given values of a category that the caller saw as it was at a time.
    pub async fn change_category(
        self,
        app: AppId,
        (id, seen): (CategoryId, Timestamp),
        values: CategoryValues<'_>,
        actor: Option<&Actor>,
    ) -> Result<SeenChange<Category>, Error> {
        let mut transaction = self.0.begin().await?;
        let before = match lock(&mut transaction, app, Some(id), None).await? {
            Some(before) if before.updated_at == seen => before,
            Some(_) => return Ok(SeenChange::Overtaken),
            None => return Ok(SeenChange::Unknown),
        };
        let changed = sqlx::query_as!(
            Category,
            r#"UPDATE category SET name = coalesce($3, name), critical = coalesce($4, critical),
               hide_in_in_app = coalesce($5, hide_in_in_app),
               hide_in_preference_manager = coalesce($6, hide_in_preference_manager),
               position = coalesce($7, position), updated_at = now()
             WHERE app_id = $1 AND id = $2
             RETURNING id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order",
               created_at, updated_at"#,
            app.0,
            id.0,
            values.name,
            values.critical,
            values.hide_in_in_app,
            values.hide_in_preference_manager,
            values.order
        )
        .fetch_one(&mut *transaction)
        .await?;
        write_row(&mut transaction, app, actor, (Some(&before), Some(&changed))).await?;
        transaction.commit().await?;
        Ok(SeenChange::Changed(changed))
    }

    pub async fn find_category(self, app: AppId, id: CategoryId) -> Result<Option<Category>, Error> {
        let category = sqlx::query_as!(
            Category,
            r#"SELECT id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order", created_at,
               updated_at
             FROM category WHERE app_id = $1 AND id = $2"#,
            app.0,
            id.0
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(category)
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
    /// names the same identifier, the category is created again. An actor writes a row of the audit log.
    pub async fn delete_category(
        self,
        app: AppId,
        id: CategoryId,
        actor: Option<&Actor>,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let deleted = sqlx::query_as!(
            Category,
            r#"DELETE FROM category WHERE app_id = $1 AND id = $2
             RETURNING id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order",
               created_at, updated_at"#,
            app.0,
            id.0
        )
        .fetch_optional(&mut *transaction)
        .await?;
        write_row(&mut transaction, app, actor, (deleted.as_ref(), None)).await?;
        transaction.commit().await?;
        Ok(deleted.is_some())
    }
}

/// Finds a category by its id or identifier, and locks it until the transaction ends.
async fn lock(
    connection: &mut PgConnection,
    app: AppId,
    id: Option<CategoryId>,
    identifier: Option<&str>,
) -> Result<Option<Category>, Error> {
    let category = sqlx::query_as!(
        Category,
        r#"SELECT id, identifier, name, critical, hide_in_in_app, hide_in_preference_manager, position AS "order", created_at,
           updated_at
         FROM category WHERE app_id = $1 AND (id = $2 OR identifier = $3) FOR NO KEY UPDATE"#,
        app.0,
        id.map(|id| id.0),
        identifier
    )
    .fetch_optional(connection)
    .await?;
    Ok(category)
}

fn values(category: &Category) -> Value {
    json!({
        "name": category.name, "critical": category.critical, "hideInInApp": category.hide_in_in_app,
        "hideInPreferenceManager": category.hide_in_preference_manager, "order": category.order,
    })
}

async fn write_row(
    connection: &mut PgConnection,
    app: AppId,
    actor: Option<&Actor>,
    (before, after): (Option<&Category>, Option<&Category>),
) -> Result<(), Error> {
    let (Some(actor), Some(category)) = (actor, after.or(before)) else { return Ok(()) };
    let action = if after.is_some() { Action::CategorySet } else { Action::CategoryDelete };
    let entry = AuditEntry::new(app, actor, action, &category.identifier);
    entry.changed(before.map(values), after.map(values)).write(connection).await
}
