use operations::OperationError;
use operations::providers::{self, Draft, SetProvider};
use serde_json::json;

use super::kinds;
use crate::control_plane::ControlPlane;
use crate::document::DocumentSource;
use crate::options::Options;
use crate::refused::InvalidInput;

/// Create or replace a provider of an app, from a JSON document. Workers use it within two seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = kinds::format())]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    source: DocumentSource,
    /// Check the document, print the change that `set` would make, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: Options,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let refused = |problems: Vec<_>| InvalidInput::document(&arguments.source.name(), &problems);
    let draft = Draft::read(kinds::known(), arguments.source.read()?).map_err(refused)?;
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let result = if arguments.dry_run {
        providers::preview(&operations, &caller, app.id, &draft).await
    } else {
        providers::set(&operations, &caller, app.id, &draft).await
    };
    let set = match result {
        Err(OperationError::Invalid(problems)) => {
            let mut error = refused(problems);
            if providers::keeps_secrets(&operations, &caller, app.id, &draft).await? {
                error.0.push_str("\nSecrets that the document leaves out stay unchanged; null removes one.");
            }
            return Err(error.into());
        }
        result => result?,
    };
    let (identifier, version) = (draft.identifier(), set.version);
    if arguments.dry_run {
        return Ok(preview(arguments, identifier, &set));
    }
    let report = json!({"identifier": identifier, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("Set provider {identifier} of app {}, version {version}.\n", app.name)))
}

fn preview(arguments: &Arguments, identifier: &str, set: &SetProvider) -> String {
    let SetProvider { version, replaced, given, kept } = set;
    if arguments.options.json {
        let answer = json!({
            "identifier": identifier, "version": version, "dryRun": true, "secretsGiven": given, "secretsKept": kept,
        });
        return format!("{answer}\n");
    }
    let what = match replaced {
        Some(replaced) => format!("replace version {replaced}"),
        None => "be created".to_owned(),
    };
    let named = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "The document is valid; provider {identifier} would {what}. Nothing was changed.\n  secrets given  {}\n  \
         secrets kept   {}\n",
        named(given),
        named(kept),
    )
}
