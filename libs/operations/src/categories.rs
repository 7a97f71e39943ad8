//! Categories.

use domain::{Action, AppId, CategoryId, Timestamp};
use store::directory::category::{Category, CategoryValues, NewCategory, SeenChange};

use crate::audit::author;
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
    let actor = author(caller, Action::CategorySet, app)?;
    let creating = operations.store.directory().create_category(app, category, actor);
    let created = database(creating).await?;
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
    let actor = author(caller, Action::CategorySet, app)?;
    database(operations.store.directory().put_category(app, identifier, values, actor)).await
}

/// Finds a category by its id.
///
/// # Errors
/// Returns [`Object::Category`] if the category does not exist.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    category: CategoryId,
) -> Result<Category, OperationError> {
    caller.may(Permission::Browse, app)?;
    let found = database(operations.store.directory().find_category(app, category)).await?;
    found.ok_or(OperationError::NotFound(Object::Category))
}

/// Changes the given values of a category that the caller saw as it was at a time.
///
/// # Errors
/// Returns [`Object::Category`] if the category does not exist, and [`Conflict::Changed`] if it was changed since then.
pub async fn change(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    seen: (CategoryId, Timestamp),
    values: CategoryValues<'_>,
) -> Result<Category, OperationError> {
    let actor = author(caller, Action::CategorySet, app)?;
    let changing = operations.store.directory().change_category(app, seen, values, actor);
    seen_change(database(changing).await?, Object::Category)
}

pub(crate) fn seen_change<T>(change: SeenChange<T>, object: Object) -> Result<T, OperationError> {
    match change {
        SeenChange::Changed(changed) => Ok(changed),
        SeenChange::Unknown => Err(OperationError::NotFound(object)),
        SeenChange::Overtaken => Err(OperationError::Conflict(Conflict::Changed)),
    }
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
    let actor = author(caller, Action::CategoryDelete, app)?;
    let is_deleted = database(operations.store.directory().delete_category(app, category, actor)).await?;
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
