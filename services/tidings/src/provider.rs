//! `tidings provider`: whom an app's external deliveries go through.

mod document;

use clap::Subcommand;
use domain::AppId;
use serde_json::{Value, json};
use store::provider::{NewProvider, ProviderSummary, SecretChange};

use crate::control_plane::{ControlPlane, Installation, actor};
use crate::document::DocumentSource;
use crate::refused::Refused;
use crate::table;
use document::{ProviderDocument, Secret};

const FORMAT: &str = r#"The document:
  {
    "identifier": "main",          unique in the app; setting it again replaces the provider
    "channel": "email",            email
    "kind": "smtp",                smtp
    "priority": 10,                the lowest number is tried first [default: 10]
    "enabled": true,               [default: true]
    "settings": {
      "host": "mail.example.com",
      "port": 587,
      "security": "starttls",      none, starttls or tls
      "username": "shop",          with a password, where the server wants them
      "password": "...",           kept encrypted; absent beside a username, the old one stays
      "from": "shop@example.com",
      "fromName": "The shop",      optional
      "replyTo": "help@example.com"   optional
    }
  }

Examples:
  tidings provider set shop main.json
  tidings provider set shop < main.json"#;

/// Set and list the providers that deliver for an app.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings provider set shop main.json")]
pub(crate) enum Command {
    Set(SetArguments),
    List(ListArguments),
}

/// Create or replace a provider of an app, from a JSON document.
#[derive(Debug, clap::Args)]
#[command(after_help = FORMAT)]
pub(crate) struct SetArguments {
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

/// List the providers of an app, without their secrets.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidings provider list shop --json")]
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
        Command::Set(arguments) => set(&arguments).await,
        Command::List(arguments) => list(&arguments).await,
    }
}

async fn set(arguments: &SetArguments) -> anyhow::Result<String> {
    let refused = |problems: Vec<_>| Refused::document(&arguments.source.name(), &problems);
    let document = ProviderDocument::read(arguments.source.read()?).map_err(refused)?;
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let sealed = match &document.secret {
        Secret::Given(secrets) => {
            let context = format!("provider:{}:{}", app.id, document.identifier);
            Some(control_plane.master_key()?.seal(&context, secrets.as_bytes())?)
        }
        Secret::Kept if !control_plane.has_secret(app.id, &document).await? => {
            return Err(refused(vec![document.secret_missing()]).into());
        }
        Secret::Kept | Secret::Absent => None,
    };
    let provider = NewProvider {
        identifier: &document.identifier,
        channel: document.channel,
        kind: document.kind,
        priority: document.priority,
        enabled: document.enabled,
        settings: &document.settings,
        secret: match &sealed {
            Some(sealed) => SecretChange::Replace(sealed),
            None if document.secret == Secret::Kept => SecretChange::Keep,
            None => SecretChange::Remove,
        },
    };
    let version = control_plane.store.put_provider(app.id, provider, &actor()).await?;
    let identifier = &document.identifier;
    Ok(if arguments.json {
        format!("{}\n", json!({"identifier": identifier, "version": version}))
    } else {
        format!("Set provider {identifier} of app {}, version {version}.\n", app.name)
    })
}

impl ControlPlane {
    /// Whether there is a secret to keep for the provider that `document` sets again.
    async fn has_secret(&self, app: AppId, document: &ProviderDocument) -> anyhow::Result<bool> {
        let providers = self.store.list_providers(app).await?;
        Ok(providers.iter().any(|provider| {
            provider.has_secret
                && (&provider.identifier, provider.channel, provider.kind.as_str())
                    == (&document.identifier, document.channel, document.kind)
        }))
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<String> {
    let control_plane = arguments.installation.open().await?;
    let app = control_plane.app(&arguments.app).await?;
    let providers = control_plane.store.list_providers(app.id).await?;
    if arguments.json {
        return Ok(format!("{}\n", providers.iter().map(as_json).collect::<Value>()));
    }
    let rows: Vec<_> = providers
        .into_iter()
        .map(|provider| {
            let enabled = if provider.enabled { "yes" } else { "no" };
            let secret = if provider.has_secret { "kept" } else { "none" };
            let priority = provider.priority.to_string();
            let channel = provider.channel.to_string();
            let version = provider.version.to_string();
            [provider.identifier, channel, provider.kind, priority, enabled.into(), secret.into(), version]
        })
        .collect();
    let header = ["IDENTIFIER", "CHANNEL", "KIND", "PRIORITY", "ENABLED", "SECRET", "VERSION"];
    Ok(table::render(header, &rows))
}

fn as_json(provider: &ProviderSummary) -> Value {
    json!({
        "identifier": provider.identifier,
        "channel": provider.channel,
        "kind": provider.kind,
        "priority": provider.priority,
        "enabled": provider.enabled,
        "settings": provider.settings,
        "hasSecret": provider.has_secret,
        "version": provider.version,
        "updatedAt": provider.updated_at,
    })
}
