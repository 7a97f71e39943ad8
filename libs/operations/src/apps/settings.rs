//! Changing the settings of an app.

use domain::app_setting::AppSetting;
use domain::{Action, AppId};
use store::control::app::App;

use crate::{Caller, Object, OperationError, Operations};

/// Sets settings of an app, and returns the changed app. If one of the settings cannot be set, none is set. Services notice
/// within five seconds.
///
/// # Errors
/// Returns [`Object::App`] if the app does not exist. Also returns an error if the settings are set, but the unproven targets
/// of some users have not ended; repeat the call.
pub async fn set(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    settings: &[AppSetting],
) -> Result<App, OperationError> {
    let actor = caller.authorize(Action::AppSet, app)?;
    let control = operations.store.control();
    if !control.set_settings(app, settings, actor).await? {
        return Err(OperationError::NotFound(Object::App));
    }
    let changed = control.app(app).await?;
    changed.ok_or(OperationError::NotFound(Object::App))
}
