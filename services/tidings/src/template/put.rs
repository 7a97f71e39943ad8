use domain::Problem;
use operations::templates::{self, TemplateDocument};
use serde_json::{Value, json};

use super::TemplateArguments;
use crate::control_plane::ControlPlane;
use crate::document::DocumentSource;
use crate::options::Options;
use crate::refused::{InvalidInput, OrMissing as _};

const FORMAT: &str = r#"The document:
  {
    "identifier": "welcome",       unique in the app; each put adds a version
    "name": "Welcome",             for people [default: the identifier]
    "category": null,              category of its sends, unless a send names another
    "channels": {                  one or more of these
      "inApp": {"title", "message", "icon", "url", "data", "blocks"},
      "email": {"subject", "text", "html"},              or `mjml` instead of `html`: MJML, which is compiled to HTML
      "sms": {"text"},
      "webPush": {"title", "body", "icon", "url"},
      "mobilePush": {"title", "body", "icon", "url"}
    },
    "sample": {"order": 7, "recipient": {"app": {"name": "Ada"}}}
                                   values to render the template with once, to find errors; not stored [default: none]
  }
Texts may use {{ name }} for a value in the `data` of a send, and {{ recipient.app.name }} for the part of the recipient's profile that only
the app's backend writes. With `template-profile=all`, they may use the whole profile: {{ recipient.name }}.

Examples:
  tidings template put shop welcome.json
  tidings template put shop welcome.json --dry-run
  echo '{"identifier":"hi","channels":{"inApp":{"title":"Hi {{ recipient.app.name }}"}}}' | tidings template put shop"#;

/// Add a version to a template of an app, from a JSON document. Versions never change. Sends use the new version at once.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMAT)]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    source: DocumentSource,
    /// Check the document, print the version that `put` would add, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: Options,
}

/// Add a version with the content of an earlier one. Sends use the new version at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings template restore shop welcome 3")]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    template: TemplateArguments,
    /// Number of the version whose content returns
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    version: i32,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let given = arguments.source.read()?;
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let profile = app.settings.template_profile;
    let document = TemplateDocument::read(given, profile)
        .map_err(|problems| InvalidInput::document(&arguments.source.name(), &problems))?;
    let warnings = templates::warnings(&document, profile, document.sample());
    let identifier = document.identifier();
    let mut report = json!({"identifier": identifier, "warnings": as_json(&warnings)});
    let text = if arguments.dry_run {
        let version = templates::next_version(&operations, &caller, app.id, &document).await?;
        (report["version"], report["dryRun"]) = (json!(version), json!(true));
        format!(
            "The document is valid; template {identifier} would get version {version}. Nothing was changed.\n"
        )
    } else {
        let (id, version) = templates::put(&operations, &caller, app.id, &document).await?;
        (report["version"], report["id"]) = (json!(version), json!(id));
        format!("Put template {identifier} of app {}, version {version}.\n", app.name)
    };
    let lines: String = warnings.iter().map(|warning| format!("Warning: {}.\n", warning.message)).collect();
    Ok(arguments.options.report(&report, text + &lines))
}

fn as_json(warnings: &[Problem]) -> Vec<Value> {
    let warning =
        |warning: &Problem| json!({"field": warning.field, "code": warning.code, "message": warning.message});
    warnings.iter().map(warning).collect()
}

pub(super) async fn restore(arguments: &RestoreArguments) -> anyhow::Result<String> {
    let TemplateArguments { identifier, options, .. } = &arguments.template;
    let (control_plane, app) = options.open_app(&arguments.template.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let restored =
        templates::restore(&operations, &caller, app.id, identifier, arguments.version, None).await;
    let version = restored.or_missing(|| arguments.template.missing(&app.name, Some(arguments.version)))?;
    let report = json!({"identifier": identifier, "version": version, "restored": arguments.version});
    let text = format!(
        "Template {identifier} of app {} has version {version}, with the content of version {}.\n",
        app.name, arguments.version
    );
    Ok(options.report(&report, text))
}
