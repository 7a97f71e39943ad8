mod link_key;
mod set;
mod signing_key;

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use domain::app_setting::AppSettings;
use operations::apps::creation::{CreatedApp, PublicAccess};
use operations::apps::{self, creation, keys};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::control::app::App;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::{self, Options};
use crate::refused::OrMissing as _;

const DELETED: &str = "the app has just been deleted";

/// Create and list apps, rotate their secrets and keys, and set their switches.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:
  tidings app create shop")]
pub(crate) enum Command {
    Create(CreateArguments),
    /// List the apps.
    #[command(after_help = "Example:
  tidings app list")]
    List(Options),
    RotateSecret(RotateArguments),
    Set(set::Arguments),
    #[command(subcommand)]
    LinkKey(link_key::Command),
    #[command(subcommand)]
    SigningKey(signing_key::Command),
}

/// Create an app, and print its API key and its API secret. The secret is not shown again. API calls by the app's users
/// need a bearer token that expires, unless --open or --development is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings app create shop
  tidings app create kiosk --open
  tidings app create shop-test --development --json")]
pub(crate) struct CreateArguments {
    /// Name of the app, unique in the installation
    name: String,
    /// Let users call the API with only the public API key: sets secure-mode=off and require-exp=off
    #[arg(long)]
    open: bool,
    /// For development: like --open. In addition, callers with only the public API key may set the addresses in profiles,
    /// and templates see all keys of a profile
    #[arg(long)]
    development: bool,
    #[command(flatten)]
    options: Options,
}

/// Create a new API secret for an app, and print it once. The previous secret stays valid for a grace period. Older
/// secrets become invalid immediately.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings app rotate-secret shop
  tidings app rotate-secret shop --grace 10m")]
pub(crate) struct RotateArguments {
    /// Name or id of the app
    app: String,
    /// Time for which the previous secret stays valid, at most 90 days
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = options::parse_grace)]
    grace: Duration,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Create(arguments) => create(&arguments).await,
        Command::List(options) => list(&options).await,
        Command::RotateSecret(arguments) => rotate(&arguments).await,
        Command::Set(arguments) => set::run(&arguments).await,
        Command::LinkKey(command) => link_key::run(command).await,
        Command::SigningKey(command) => signing_key::run(command).await,
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let name = &arguments.name;
    creation::check_name(name).map_err(OperationError::Invalid)?;
    let ControlPlane { operations, caller, .. } = arguments.options.open().await?;
    let access = match (arguments.development, arguments.open) {
        (true, _) => PublicAccess::Development,
        (false, true) => PublicAccess::Open,
        (false, false) => PublicAccess::Closed,
    };
    let CreatedApp { id, api_key, api_secret } =
        match creation::create(&operations, &caller, name, access).await {
            Err(OperationError::Conflict(Conflict::NameTaken)) => bail!(
                "an app named {name:?} already exists; choose another name, or renew its secret with \
                 `tidings app rotate-secret`"
            ),
            created => created?,
        };
    let api_secret = api_secret.expose_secret();
    let report = json!({
        "id": id.to_string(), "name": name, "apiKey": api_key, "apiSecret": api_secret,
        "development": arguments.development,
    });
    let text = format!(
        "Created app {name} with id {id}.\n\n  API key     {api_key}\n  API secret  {api_secret}\n\n\
         Keep the secret: it is not shown again.\n{}",
        requirement(access)
    );
    Ok(arguments.options.report(&report, text))
}

fn requirement(access: PublicAccess) -> &'static str {
    match access {
        PublicAccess::Closed => {
            "Calls of users need a bearer token that expires (`tidings app signing-key create`); \
             `tidings app create --open` or `tidings app set APP secure-mode=off require-exp=off` removes this requirement.\n"
        }
        PublicAccess::Open => {
            "Open: any caller that knows the API key and a user id acts as that user; `tidings app set APP secure-mode=on \
             require-exp=on` closes the app.\n"
        }
        PublicAccess::Development => {
            "For development only: any caller that knows the API key may act as any user.\n"
        }
    }
}

async fn list(options: &Options) -> anyhow::Result<String> {
    let ControlPlane { operations, caller, .. } = options.open().await?;
    let apps = apps::list(&operations, &caller).await?;
    let header = ["ID", "NAME", "API KEY", "STATE", "SECRETS", "CREATED"];
    Ok(Listing::new(apps).render(options.json, as_json, header, |app| {
        let state = match (app.settings.disabled, app.development) {
            (true, _) => "disabled",
            (false, true) => "development",
            (false, false) => "live",
        };
        let secrets = app.secrets.len().to_string();
        let created = app.created_at.to_string();
        [app.id.to_string(), app.name.clone(), app.api_key.clone(), state.to_owned(), secrets, created]
    }))
}

/// Renders an app as JSON, without its secrets.
fn as_json(app: &App) -> Value {
    let secrets: Vec<_> = app.secrets.iter().map(|secret| json!({"expiresAt": secret.expires_at})).collect();
    let effective = AppSettings { guard_addresses: Some(app.guards_addresses()), ..app.settings.clone() };
    let mut members = effective.to_members();
    let others = [
        ("id", json!(app.id.to_string())),
        ("name", json!(app.name)),
        ("apiKey", json!(app.api_key)),
        ("development", json!(app.development)),
        ("createdAt", json!(app.created_at)),
        ("secrets", json!(secrets)),
        ("signingKeys", app.signing_keys.iter().map(signing_key::as_json).collect()),
    ];
    members.extend(others.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(members)
}

async fn rotate(arguments: &RotateArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let rotated = keys::rotate_secret(&operations, &caller, app.id, arguments.grace).await;
    let secret = rotated.or_missing(|| DELETED.to_owned())?;
    let secret = secret.expose_secret();
    let report =
        json!({"id": app.id.to_string(), "name": app.name, "apiKey": app.api_key, "apiSecret": secret});
    let text = format!(
        "Renewed the secret of app {} with id {}.\n\n  API key     {}\n  API secret  {secret}\n\n\
         Keep the secret: it is not shown again. The previous one stays valid for {}.\n",
        app.name,
        app.id,
        app.api_key,
        humantime::format_duration(arguments.grace),
    );
    Ok(arguments.options.report(&report, text))
}
