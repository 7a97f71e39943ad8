//! Changing the settings of an app.

use domain::app_setting::AppSetting;
use domain::send::TemplateRef;
use domain::{Action, AppId, Problem};
use store::control::app::App;

use crate::{Caller, Object, OperationError, Operations};

/// Sets settings of an app, and returns the changed app. If one of the settings cannot be set, none is set. Services notice
/// within five seconds.
///
/// # Errors
/// Returns [`Object::App`] if the app does not exist, and a problem if a template that a setting names cannot be used. Also returns an error if the settings are set, but the unproven targets
/// of some users have not ended; repeat the call.
pub async fn set(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    settings: &[AppSetting],
) -> Result<App, OperationError> {
    let actor = caller.authorize(Action::AppSet, app)?;
    let control = operations.store.control();
    for setting in settings {
        if let AppSetting::EmailLayout(Some(identifier)) = setting {
            check_layout(operations, app, setting.name(), identifier).await?;
        }
    }
    if !control.set_settings(app, settings, actor).await? {
        return Err(OperationError::NotFound(Object::App));
    }
    let changed = control.app(app).await?;
    changed.ok_or(OperationError::NotFound(Object::App))
}

async fn check_layout(
    operations: &Operations,
    app: AppId,
    name: &str,
    identifier: &str,
) -> Result<(), OperationError> {
    let named = TemplateRef::Identifier(identifier.to_owned());
    let found = operations.store.control().find_template(app, &named).await?;
    let refusal = match found {
        None => "is not a template of the app; create it with `tidings template put` first",
        Some(found) if found.channels.get("email").is_none() => "is a template without an email",
        Some(_) => return Ok(()),
    };
    let message = format!("{name}: {identifier:?} {refusal}");
    Err(OperationError::Invalid(vec![Problem::new(name, "invalid_template", message)]))
}
