//! Changing the settings of an app.

use domain::app_setting::{AppSetting, AppSettings};
use domain::send::TemplateRef;
use domain::{Action, AppId, Problem};
use store::control::app::App;
use store::control::setting::SettingsChange;

use super::keys::short_digest;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

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
    set_if(operations, caller, app, settings, None).await
}

/// Like [`set`], if the app still has the settings of a version.
///
/// # Errors
/// Returns the errors of [`set`], and [`Conflict::Changed`] if the app has other settings.
pub async fn set_seen(
    operations: &Operations,
    caller: &Caller,
    app: &App,
    settings: &[AppSetting],
    seen: &str,
) -> Result<App, OperationError> {
    caller.may(Permission::ManageApps, app.id)?;
    if version(app) != seen {
        return Err(OperationError::Conflict(Conflict::Changed));
    }
    set_if(operations, caller, app.id, settings, Some(&app.settings)).await
}

/// Returns a text that differs if a setting of the app differs.
#[must_use]
pub fn version(app: &App) -> String {
    short_digest(format!("{:?}", app.settings.to_texts()).as_bytes())
}

async fn set_if(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    settings: &[AppSetting],
    seen: Option<&AppSettings>,
) -> Result<App, OperationError> {
    let actor = caller.authorize(Action::AppSet, app)?;
    let control = operations.store.control();
    for setting in settings {
        if let AppSetting::EmailLayout(Some(identifier)) = setting {
            check_layout(operations, app, setting.name(), identifier).await?;
        }
    }
    match control.set_seen_settings(app, settings, seen, actor).await? {
        SettingsChange::Set => {}
        SettingsChange::UnknownApp => return Err(OperationError::NotFound(Object::App)),
        SettingsChange::Overtaken => return Err(OperationError::Conflict(Conflict::Changed)),
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
