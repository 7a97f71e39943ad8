//! Apps, their credentials and their settings.

pub mod creation;
pub mod keys;
pub mod settings;

use store::control::app::App;

use crate::{Caller, Object, OperationError, Operations, Permission};

/// Finds an app by its name or, if no app has this name, by its id.
///
/// # Errors
/// Returns [`Object::App`] if the app does not exist, or if the caller may not see it.
pub async fn find(operations: &Operations, caller: &Caller, name_or_id: &str) -> Result<App, OperationError> {
    let app = operations.store.control().app_by_name_or_id(name_or_id).await?;
    let app = app.filter(|app| caller.may(Permission::View, app.id).is_ok());
    app.ok_or(OperationError::NotFound(Object::App))
}

/// Lists the apps that the caller may see, in order of creation.
pub async fn list(operations: &Operations, caller: &Caller) -> Result<Vec<App>, OperationError> {
    let mut apps = operations.store.control().list_apps().await?;
    apps.retain(|app| caller.may(Permission::View, app.id).is_ok());
    Ok(apps)
}
