//! Templates of an app: what a document may contain for each channel, and the versions of a template.

mod diff;
mod document;
mod examples;
mod mjml;
mod preview;
mod test_sends;
mod warnings;

use domain::id::TemplateId;
use domain::send::TemplateRef;
use domain::{Action, AppId};
use store::control::template::{NewTemplate, TemplateSummary, TemplateVersion};

use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

pub use diff::{Compared, diff};
pub use document::TemplateDocument;
pub use examples::{EXAMPLES, Example};
pub use mjml::written;
pub use planning::TemplateError;
pub use preview::{Preview, Sample, preview, preview_draft};
pub use test_sends::{MOST_AN_HOUR, TestRecipient, TestSendError, TestSends, TestText};
pub use warnings::warnings;

/// Adds a version to a template, and creates the template if it does not exist. Returns the template's id and the number of
/// the version.
pub async fn put(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    document: &TemplateDocument,
) -> Result<(TemplateId, i32), OperationError> {
    let actor = caller.authorize(Action::TemplatePut, app)?;
    Ok(operations.store.control().put_template(app, document.new_template(), actor).await?)
}

/// Adds a version after the version `newest`, which is 0 for a new template. Returns its number.
///
/// # Errors
/// Returns [`Conflict::TemplateChanged`] if another version was added meanwhile.
pub async fn publish(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    document: &TemplateDocument,
    newest: i32,
) -> Result<i32, OperationError> {
    let actor = caller.authorize(Action::TemplatePut, app)?;
    let control = operations.store.control();
    let put = control.put_template_after(app, document.new_template(), newest, actor).await?;
    put.map(|(_, version)| version).ok_or(OperationError::Conflict(Conflict::TemplateChanged))
}

/// Returns the number of the version that [`put`] would add.
pub async fn next_version(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    document: &TemplateDocument,
) -> Result<i32, OperationError> {
    caller.may(Permission::of(Action::TemplatePut), app)?;
    let named = TemplateRef::Identifier(document.identifier().to_owned());
    let newest = operations.store.control().find_template(app, &named).await?;
    Ok(newest.map_or(1, |newest| newest.version + 1))
}

/// Lists the newest version of each template, ordered by identifier.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
) -> Result<Vec<TemplateSummary>, OperationError> {
    caller.may(Permission::View, app)?;
    Ok(operations.store.control().list_templates(app).await?)
}

/// Lists the versions of a template, newest first.
///
/// # Errors
/// Returns [`Object::Template`] if the template does not exist.
pub async fn versions(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    limit: i64,
) -> Result<Vec<TemplateSummary>, OperationError> {
    caller.may(Permission::View, app)?;
    let versions = operations.store.control().template_versions(app, identifier, limit).await?;
    if versions.is_empty() { Err(OperationError::NotFound(Object::Template)) } else { Ok(versions) }
}

/// Finds a version of a template; without `version`, the newest one.
///
/// # Errors
/// Returns [`Object::Template`] or [`Object::TemplateVersion`] if there is none.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    version: Option<i32>,
) -> Result<TemplateVersion, OperationError> {
    caller.may(Permission::View, app)?;
    let control = operations.store.control();
    let named = TemplateRef::Identifier(identifier.to_owned());
    let newest =
        control.find_template(app, &named).await?.ok_or(OperationError::NotFound(Object::Template))?;
    match version.filter(|version| *version != newest.version) {
        None => Ok(newest),
        Some(version) => control
            .template_version(app, newest.id, version)
            .await?
            .ok_or(OperationError::NotFound(Object::TemplateVersion)),
    }
}

/// Adds a version with the content of an earlier one. Returns its number. If `newest` is given, the newest version must have this number.
///
/// # Errors
/// Returns [`Object::Template`] or [`Object::TemplateVersion`] if there is none, every problem of a version that was stored under
/// earlier rules, and [`Conflict::TemplateChanged`] if the newest version has another number.
pub async fn restore(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    version: i32,
    newest: Option<i32>,
) -> Result<i32, OperationError> {
    let actor = caller.authorize(Action::TemplatePut, app)?;
    let earlier = find(operations, caller, app, identifier, Some(version)).await?;
    planning::check(&earlier.channels).map_err(OperationError::Invalid)?;
    let template = NewTemplate {
        identifier: &earlier.identifier,
        name: &earlier.name,
        category: earlier.category.as_deref(),
        channels: &earlier.channels,
        mjml: earlier.mjml.as_deref(),
    };
    let control = operations.store.control();
    match newest {
        None => Ok(control.put_template(app, template, actor).await?.1),
        Some(newest) => {
            let put = control.put_template_after(app, template, newest, actor).await?;
            put.map(|(_, version)| version).ok_or(OperationError::Conflict(Conflict::TemplateChanged))
        }
    }
}
