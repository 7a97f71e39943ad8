//! `tidings provider set`.

use anyhow::Context as _;
use credentials::secrets::provider_context;
use domain::AppId;
use serde_json::{Map, Value, json};
use store::control::provider::{NewProvider, SecretChange, StoredProvider};

use super::document::{Draft, ProviderDocument};
use super::kinds;
use crate::control_plane::{ControlPlane, actor};
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
    let draft = Draft::read(arguments.source.read()?).map_err(refused)?;
    let Some(identifier) = draft.identifier().map(str::to_owned) else {
        return match draft.complete(&Map::new()) {
            Err(problems) => Err(refused(problems).into()),
            Ok(_) => Err(InvalidInput("the document has no identifier".to_owned()).into()),
        };
    };
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let (edit, stored) = control_plane.store.control().edit_provider(app.id, &identifier).await?;
    let kept = match &stored {
        Some(stored) if draft.leaves_secrets_out() => control_plane.kept(app.id, &draft, stored)?,
        _ => Map::new(),
    };
    let document = draft.complete(&kept).map_err(|problems| with_hint(refused(problems), &kept))?;
    let replaced = stored.map(|stored| stored.row.version);
    if arguments.dry_run {
        return Ok(preview(arguments, &document, replaced));
    }
    let is_unchanged = document.given.is_empty() && document.secrets == kept;
    let sealed = if document.secrets.is_empty() || is_unchanged {
        None
    } else {
        let text = Value::Object(document.secrets.clone()).to_string();
        let context = provider_context(app.id, &identifier);
        Some(control_plane.master_key().await?.seal(&context, text.as_bytes())?)
    };
    let provider = NewProvider {
        identifier: &identifier,
        channel: document.channel,
        kind: document.kind,
        priority: document.priority,
        enabled: document.enabled,
        settings: &document.settings,
        secret: match &sealed {
            Some(sealed) => SecretChange::Replace(sealed),
            None if document.secrets.is_empty() => SecretChange::Remove,
            None => SecretChange::Keep,
        },
        max_per_second: document.max_per_second,
    };
    let version = edit.put(provider, &actor()).await?;
    let report = json!({"identifier": identifier, "version": version});
    Ok(arguments
        .options
        .report(&report, format!("Set provider {identifier} of app {}, version {version}.\n", app.name)))
}

impl ControlPlane {
    /// Decrypts the secrets of the stored provider if its channel and kind are those of the draft. Otherwise returns no
    /// secrets.
    fn kept(&self, app: AppId, draft: &Draft, stored: &StoredProvider) -> anyhow::Result<Map<String, Value>> {
        let row = &stored.row;
        let is_same = (stored.channel, row.kind.as_str()) == (draft.channel, draft.kind.name());
        match row.sealed.as_deref().filter(|_| is_same) {
            Some(sealed) => worker::open_secrets(&self.configured_key()?, app, &row.identifier, sealed)
                .context("cannot decrypt the stored secrets: the document must set each secret to a new value or to null"),
            None => Ok(Map::new()),
        }
    }
}

fn with_hint(InvalidInput(mut text): InvalidInput, kept: &Map<String, Value>) -> InvalidInput {
    if !kept.is_empty() {
        text.push_str("\nSecrets that the document leaves out stay unchanged; null removes one.");
    }
    InvalidInput(text)
}

/// Renders the result of a dry run.
fn preview(arguments: &Arguments, document: &ProviderDocument, replaced: Option<i64>) -> String {
    let ProviderDocument { identifier, given, kept, .. } = document;
    let version = replaced.unwrap_or(0) + 1;
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
