//! Categories.

use domain::{AppId, CategoryId};
use store::directory::category::{Category, CategoryValues, NewCategory};

use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Maximum number of categories in a list.
pub const MOST_LISTED: i64 = 1_000;

/// Creates a category.
///
/// # Errors
/// Returns [`Conflict::CategoryExists`] if the app has a category with this identifier.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    category: NewCategory<'_>,
) -> Result<Category, OperationError> {
    caller.may(Permission::EditCategories, app)?;
    let created = database(operations.store.directory().create_category(app, category)).await?;
    created.ok_or(OperationError::Conflict(Conflict::CategoryExists))
}

/// Creates a category, or changes the given values of one.
pub async fn put(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    values: CategoryValues<'_>,
) -> Result<Category, OperationError> {
    caller.may(Permission::EditCategories, app)?;
    database(operations.store.directory().put_category(app, identifier, values)).await
}

/// Deletes a category and the users' preferences for it.
///
/// # Errors
/// Returns [`Object::Category`] if the category does not exist.
pub async fn delete(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    category: CategoryId,
) -> Result<(), OperationError> {
    caller.may(Permission::EditCategories, app)?;
    let is_deleted = database(operations.store.directory().delete_category(app, category)).await?;
    if is_deleted { Ok(()) } else { Err(OperationError::NotFound(Object::Category)) }
}

/// Lists at most `limit` categories that were created after the category `after`.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    after: Option<CategoryId>,
    limit: i64,
) -> Result<Vec<Category>, OperationError> {
    caller.may(Permission::Browse, app)?;
    database(operations.store.directory().list_categories(app, after, limit)).await
}
