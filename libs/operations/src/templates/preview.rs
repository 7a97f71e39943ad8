//! Previews: the content that a recipient would get from a version of a template.

use domain::app_setting::AppSettings;
use domain::content::{InAppContent, Object};
use domain::overrides::Overrides;
use domain::send::{Lane, Recipient, TemplateRef};
use domain::{AppId, Channel, SendRequest, TemplateProfile};
use planning::{ContentRenderer, EmailLook, Template, TemplateError, TemplateNeeds};
use serde_json::Value;
use store::control::app::App;
use store::sends::planned_chunk::PlanCategory;
use tokio::task::spawn_blocking;

use super::{TemplateDocument, find};
use crate::categories::MOST_LISTED;
use crate::sends::dry_run::RenderedContent;
use crate::{Caller, OperationError, Operations, Permission, users};

/// Identifier of the recipient of a sample that names none.
const NAMELESS: &str = "recipient";
/// Longest path of a variable for which a value is invented, in bytes.
const LONGEST_PATH: usize = 128;

/// Variables of a send, with the profile of one recipient in the member `recipient`.
#[derive(Clone, Debug, Default)]
pub struct Sample(Object);

impl Sample {
    #[must_use]
    pub fn new(variables: Object) -> Sample {
        Sample(variables)
    }

    /// Invents a value for each variable that the texts use: its name in capitals. Returns no values if the texts cannot be rendered with them.
    #[must_use]
    pub fn invented(channels: &Value) -> Sample {
        let mut sample = Object::new();
        for path in planning::variables(channels).into_values().flatten() {
            let is_fact = ["app", "category"].contains(&path.split('.').next().unwrap_or_default());
            if !is_fact && path.len() <= LONGEST_PATH {
                invent(&mut sample, &path);
            }
        }
        let is_usable = planning::check_sample(channels, Some(&sample)).is_ok();
        Sample(if is_usable { sample } else { Object::new() })
    }

    #[must_use]
    pub fn variables(&self) -> &Object {
        &self.0
    }

    /// Sets a member of the recipient's profile.
    #[must_use]
    pub fn with_recipient(mut self, key: &str, value: &str) -> Sample {
        let recipient = self.0.entry("recipient").or_insert_with(|| Value::Object(Object::new()));
        if let Value::Object(recipient) = recipient {
            recipient.insert(key.to_owned(), Value::String(value.to_owned()));
        }
        self
    }

    /// Replaces the recipient by a user of the app.
    ///
    /// # Errors
    /// Returns [`Object::User`](crate::Object::User) if the user does not exist.
    pub async fn for_user(
        mut self,
        operations: &Operations,
        caller: &Caller,
        app: AppId,
        identifier: &str,
    ) -> Result<Sample, OperationError> {
        let mut person = users::find(operations, caller, app, identifier).await?.0.profile;
        person.insert("identifier".to_owned(), Value::String(identifier.to_owned()));
        self.0.insert("recipient".to_owned(), Value::Object(person));
        Ok(self)
    }

    /// Returns the variables as templates of an app see them.
    pub(super) fn seen(mut self, profile: TemplateProfile) -> Object {
        if let Some(Value::Object(recipient)) = self.0.get_mut("recipient") {
            recipient.retain(|key, _| profile.shows(key) || key == "identifier");
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

fn invent(object: &mut Object, path: &str) {
    let Some((first, rest)) = path.split_once('.') else {
        object.entry(path).or_insert_with(|| Value::String(path.to_uppercase()));
        return;
    };
    let member = object.entry(first).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Object::new());
    }
    if let Value::Object(members) = member {
        invent(members, rest);
    }
}

/// Content of a template for one recipient.
pub struct Preview {
    /// 0 if the text is not published.
    pub version: i32,
    /// Content of each channel that the version has, or the reason why it cannot be rendered.
    pub contents: Vec<(Channel, Result<RenderedContent, TemplateError>)>,
    /// Variables that the sample lacks although every rendering shows them, each with the first text that does. Members of `recipient`
    /// that the app hides from templates are among them. Empty for a layout.
    pub missing: Vec<(String, String)>,
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
    let text = Text { identifier: found.identifier, category: found.category, channels: found.channels };
    Ok(Preview { version: found.version, ..rendered(operations, app, text, sample).await? })
}

/// Renders a text that is not published. Stores nothing.
pub async fn preview_draft(
    operations: &Operations,
    caller: &Caller,
    app: &App,
    document: &TemplateDocument,
    sample: Sample,
) -> Result<Preview, OperationError> {
    caller.may(Permission::EditTemplates, app.id)?;
    let text = Text {
        identifier: document.identifier.clone(),
        category: document.category.clone(),
        channels: document.channels.clone(),
    };
    rendered(operations, app, text, sample).await
}

/// Text that is rendered.
struct Text {
    identifier: String,
    category: Option<String>,
    channels: Value,
}

async fn rendered(
    operations: &Operations,
    app: &App,
    text: Text,
    sample: Sample,
) -> Result<Preview, OperationError> {
    let category = category(operations, app, text.category.as_deref()).await?;
    let (name, settings) = (app.name.clone(), app.settings.clone());
    let rendering = spawn_blocking(move || render(&text, &name, &settings, category.as_ref(), sample));
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

/// Renders the layout of the app's emails as a send without a template would use it.
fn render(
    text: &Text,
    app: &str,
    settings: &AppSettings,
    category: Option<&PlanCategory>,
    sample: Sample,
) -> Result<Preview, TemplateError> {
    let template = Template::compile(&text.channels)?;
    let is_layout = settings.email_layout.as_ref() == Some(&text.identifier);
    let (data, recipient, person) = sample.divide();
    let content = if is_layout { plain(data) } else { InAppContent { data, ..InAppContent::default() } };
    let named = || TemplateRef::Identifier(text.identifier.clone());
    let send = send(content, (!is_layout).then(named), &recipient);
    let brand = settings.brand(app);
    let look = EmailLook { brand: &brand, layout: is_layout.then_some(&template), unsubscribe: true };
    let of_send = (!is_layout).then_some(&template);
    let renderer = ContentRenderer::new(&send, of_send, app, look, category)
        .with_template_profile(settings.template_profile);
    let rendered = |channel| match channel {
        Channel::InApp => {
            renderer.in_app(&recipient, &person).map(|content| RenderedContent::InApp(content.into_owned()))
        }
        channel => renderer.shown(channel, &recipient, &person).map(RenderedContent::External),
    };
    let channels = if is_layout { vec![Channel::Email] } else { template.offered_channels() };
    let contents = channels.into_iter().map(|channel| (channel, rendered(channel))).collect();
    let missing = if is_layout {
        Vec::new()
    } else {
        missing(&TemplateNeeds::of(&text.channels), &send, &person, settings.template_profile)
    };
    Ok(Preview { version: 0, contents, missing })
}

/// Returns the variables that a sample lacks, each with the first text that needs it.
pub(super) fn missing_in(sample: Sample, channels: &Value, seen: TemplateProfile) -> Vec<(String, String)> {
    let (data, recipient, person) = sample.divide();
    let send = send(InAppContent { data, ..InAppContent::default() }, None, &recipient);
    missing(&TemplateNeeds::of(channels), &send, &person, seen)
}

fn missing(
    needs: &TemplateNeeds,
    send: &SendRequest,
    person: &Object,
    seen: TemplateProfile,
) -> Vec<(String, String)> {
    let of_data = needs.missing(send, &Object::new());
    let all = of_data.into_iter().chain(needs.missing_in_profile(send, person, seen));
    all.map(|(variable, text)| (variable.to_owned(), text.to_owned())).collect()
}

/// Returns the content of a send without a template: the members `title`, `message` and `url` of the data.
fn plain(mut data: Object) -> InAppContent {
    let mut text = |name, otherwise: &str| match data.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => Some(otherwise.to_owned()),
    };
    let title = text("title", "Title of the send");
    let message = text("message", "Message of the send");
    let url = text("url", "https://example.com/");
    InAppContent { title, message, url, data, ..InAppContent::default() }
}

fn send(content: InAppContent, template: Option<TemplateRef>, recipient: &Recipient) -> SendRequest {
    SendRequest {
        content,
        template,
        category: None,
        recipients: vec![recipient.clone()],
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: None,
        proven_targets: false,
        cancellation_key: None,
        overrides: Overrides::default(),
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    }
}
