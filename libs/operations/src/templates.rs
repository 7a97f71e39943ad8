//! Templates of an app: what a document may contain for each channel.

mod document;

use domain::id::TemplateId;
use domain::{Action, AppId};
use store::control::template::{NewTemplate, TemplateSummary};

use crate::{Caller, OperationError, Operations, Permission};

pub use document::TemplateDocument;

/// Adds a version to a template, and creates the template if it does not exist. Returns the template's id and the number of
/// the version.
pub async fn put(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    document: &TemplateDocument,
) -> Result<(TemplateId, i32), OperationError> {
    let actor = caller.authorize(Action::TemplatePut, app)?;
    let template = NewTemplate {
        identifier: &document.identifier,
        name: &document.name,
        category: document.category.as_deref(),
        channels: &document.channels,
    };
    Ok(operations.store.control().put_template(app, template, actor).await?)
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
