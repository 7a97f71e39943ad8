use clap::Subcommand;
use operations::templates::{self, TemplateDocument};
use serde_json::{Value, json};
use store::control::template::TemplateSummary;

use crate::control_plane::ControlPlane;
use crate::document::DocumentSource;
use crate::listing::Listing;
use crate::options::{AppArguments, Options};
use crate::refused::InvalidInput;

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
    /// List the templates of an app, each in its latest version.
    #[command(after_help = "Example:
  tidings template list shop --json")]
    List(AppArguments),
}

/// Add a version to a template of an app, from a JSON document. Versions never change.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMAT)]
pub(crate) struct PutArguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    source: DocumentSource,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Put(arguments) => put(&arguments).await,
        Command::List(arguments) => list(&arguments).await,
    }
}

async fn put(arguments: &PutArguments) -> anyhow::Result<String> {
    let document = TemplateDocument::read(arguments.source.read()?)
        .map_err(|problems| InvalidInput::document(&arguments.source.name(), &problems))?;
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let identifier = document.identifier();
    let (id, version) = templates::put(&operations, &caller, app.id, &document).await?;
    let report = json!({"identifier": identifier, "id": id, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("Put template {identifier} of app {}, version {version}.\n", app.name)))
}

async fn list(arguments: &AppArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.open().await?;
    let templates = templates::list(&control_plane.operations, &control_plane.caller, app.id).await?;
    let header = ["IDENTIFIER", "ID", "VERSION", "NAME", "CATEGORY", "CHANNELS", "CREATED"];
    Ok(Listing::new(templates).render(arguments.options.json, as_json, header, |template| {
        [
            template.identifier.clone(),
            template.id.to_string(),
            template.version.to_string(),
            template.name.clone(),
            template.category.clone().unwrap_or_else(|| "-".to_owned()),
            template.channels.join(","),
            template.created_at.to_string(),
        ]
    }))
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
