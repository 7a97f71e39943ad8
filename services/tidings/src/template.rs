//! `tidings template`: templates for the content of an app's notifications.

mod document;

use clap::Subcommand;
use serde_json::{Value, json};
use store::control::template::{NewTemplate, TemplateSummary};

use crate::control_plane::{Installation, actor};
use crate::document::DocumentSource;
use crate::refused::Refused;
use crate::table;
use document::TemplateDocument;

const FORMAT: &str = r#"The document:
  {
    "identifier": "welcome",       unique in the app; each put adds a version
    "name": "Welcome",             for people [default: the identifier]
    "category": null,              category of its sends, unless a send names another
    "channels": {                  one or more of these
      "inApp": {"title", "message", "icon", "url", "data", "blocks"},
      "email": {"subject", "text", "html"},
      "sms": {"text"},
      "webPush": {"title", "body", "icon", "url"},
      "mobilePush": {"title", "body", "icon", "url"}
    },
    "sample": {"order": 7, "recipient": {"name": "Ada"}}
                                   values to render the template with once, to find errors; not stored [default: none]
  }
Texts may use {{ name }} for a value in the `data` of a send, and {{ recipient.name }} for the recipient's profile.

Examples:
  tidings template put shop welcome.json
  echo '{"identifier":"hi","channels":{"inApp":{"title":"Hi {{ recipient.name }}"}}}' | tidings template put shop"#;

/// Put and list the templates of an app.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings template put shop welcome.json")]
pub(crate) enum Command {
    Put(PutArguments),
    List(ListArguments),
}

/// Add a version to a template of an app, from a JSON document. Versions never change.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMAT)]
pub(crate) struct PutArguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    source: DocumentSource,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

/// List the templates of an app in their latest versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings template list shop --json")]
pub(crate) struct ListArguments {
    /// Name or id of the app
    app: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Put(arguments) => put(&arguments).await,
        Command::List(arguments) => list(&arguments).await,
    }
}

async fn put(arguments: &PutArguments) -> anyhow::Result<String> {
    let document = TemplateDocument::read(arguments.source.read()?)
        .map_err(|problems| Refused::document(&arguments.source.name(), &problems))?;
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let identifier = &document.identifier;
    let template = NewTemplate {
        identifier,
        name: &document.name,
        category: document.category.as_deref(),
        channels: &document.channels,
    };
    let (id, version) = control_plane.store.control().put_template(app.id, template, &actor()).await?;
    Ok(if arguments.json {
        format!("{}\n", json!({"identifier": identifier, "id": id, "version": version}))
    } else {
        format!("Put template {identifier} of app {}, version {version}.\n", app.name)
    })
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let templates = control_plane.store.control().list_templates(app.id).await?;
    if arguments.json {
        return Ok(format!("{}\n", templates.iter().map(as_json).collect::<Value>()));
    }
    let rows: Vec<_> = templates
        .into_iter()
        .map(|template| {
            let (id, version) = (template.id.to_string(), template.version.to_string());
            let category = template.category.unwrap_or_else(|| "-".to_owned());
            let channels = template.channels.join(",");
            [
                template.identifier,
                id,
                version,
                template.name,
                category,
                channels,
                template.created_at.to_string(),
            ]
        })
        .collect();
    Ok(table::render(["IDENTIFIER", "ID", "VERSION", "NAME", "CATEGORY", "CHANNELS", "CREATED"], &rows))
}

fn as_json(template: &TemplateSummary) -> Value {
    json!({
        "identifier": template.identifier,
        "id": template.id,
        "version": template.version,
        "name": template.name,
        "category": template.category,
        "channels": template.channels,
        "createdAt": template.created_at,
    })
}
