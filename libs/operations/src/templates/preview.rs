//! Previews: the content that a recipient would get from a version of a template.

use domain::content::{InAppContent, Object};
use domain::overrides::Overrides;
use domain::send::{Lane, Recipient, TemplateRef};
use domain::{Channel, SendRequest, TemplateProfile, profile};
use planning::{ContentRenderer, Template, TemplateError};
use serde_json::Value;
use store::control::app::App;
use store::control::template::TemplateVersion;
use store::sends::planned_chunk::PlanCategory;
use tokio::task::spawn_blocking;

use super::find;
use crate::categories::MOST_LISTED;
use crate::sends::dry_run::RenderedContent;
use crate::{Caller, OperationError, Operations};

/// Identifier of the recipient of a sample that names none.
const NAMELESS: &str = "recipient";

/// Variables of a send, with the profile of one recipient in the member `recipient`.
#[derive(Clone, Debug, Default)]
pub struct Sample(Object);

impl Sample {
    #[must_use]
    pub fn new(variables: Object) -> Sample {
        Sample(variables)
    }

    /// Returns the variables as templates of an app see them.
    pub(super) fn seen(mut self, profile: TemplateProfile) -> Object {
        if profile == TemplateProfile::App
            && let Some(Value::Object(recipient)) = self.0.get_mut("recipient")
        {
            recipient.retain(|key, _| key == profile::APP_KEY || key == "identifier");
        }
        self.0
    }

    /// Divides the variables into the data of the send and its recipient, with the recipient's profile.
    fn divide(mut self) -> (Object, Recipient, Object) {
        let mut person = match self.0.remove("recipient") {
            Some(Value::Object(person)) => person,
            _ => Object::new(),
        };
        let identifier = match person.remove("identifier") {
            Some(Value::String(identifier)) => identifier,
            _ => NAMELESS.to_owned(),
        };
        (self.0, Recipient { identifier, profile: None, data: Object::new() }, person)
    }
}

/// Content of a version for one recipient.
pub struct Preview {
    pub version: i32,
    /// Content of each channel that the version has, or the reason why it cannot be rendered.
    pub contents: Vec<(Channel, Result<RenderedContent, TemplateError>)>,
}

/// Renders a version of a template; without `version`, the newest one.
///
/// # Errors
/// Returns [`Object::Template`](crate::Object::Template) or [`Object::TemplateVersion`](crate::Object::TemplateVersion) if there is none.
pub async fn preview(
    operations: &Operations,
    caller: &Caller,
    app: &App,
    identifier: &str,
    version: Option<i32>,
    sample: Sample,
) -> Result<Preview, OperationError> {
    let found = find(operations, caller, app.id, identifier, version).await?;
    let category = category(operations, app, found.category.as_deref()).await?;
    let (name, profile) = (app.name.clone(), app.settings.template_profile);
    let rendering = spawn_blocking(move || render(&found, &name, profile, category.as_ref(), sample));
    rendering.await.map_err(OperationError::defect)?.map_err(OperationError::defect)
}

async fn category(
    operations: &Operations,
    app: &App,
    identifier: Option<&str>,
) -> Result<Option<PlanCategory>, OperationError> {
    let Some(identifier) = identifier else { return Ok(None) };
    let known = operations.store.directory().list_categories(app.id, None, MOST_LISTED).await?;
    let found = known.into_iter().find(|category| category.identifier == identifier);
    Ok(found.map(|category| PlanCategory {
        id: category.id,
        identifier: category.identifier,
        name: category.name,
        critical: false,
    }))
}

fn render(
    found: &TemplateVersion,
    app: &str,
    profile: TemplateProfile,
    category: Option<&PlanCategory>,
    sample: Sample,
) -> Result<Preview, TemplateError> {
    let template = Template::compile(&found.channels)?;
    let (data, recipient, person) = sample.divide();
    let send = SendRequest {
        content: InAppContent { data, ..InAppContent::default() },
        template: Some(TemplateRef::Id(found.id)),
        category: None,
        recipients: vec![recipient.clone()],
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: None,
        proven_targets: false,
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    };
    let renderer = ContentRenderer::new(&send, Some(&template), app, category).with_template_profile(profile);
    let rendered = |channel| match channel {
        Channel::InApp => {
            renderer.in_app(&recipient, &person).map(|content| RenderedContent::InApp(content.into_owned()))
        }
        channel => renderer.external(channel, &recipient, &person).map(RenderedContent::External),
    };
    let channels = template.offered_channels().into_iter();
    let contents = channels.map(|channel| (channel, rendered(channel))).collect();
    Ok(Preview { version: found.version, contents })
}
