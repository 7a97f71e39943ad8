mod link_key;
mod row;
mod set;
mod signing_key;

use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use operations::apps::creation::{CreatedApp, PublicAccess};
use operations::apps::{self, creation, keys};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::options::{self, Options};
use crate::place::Place;
use crate::refused::OrMissing as _;
pub(crate) use row::AppRow;

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
    let (access, word) = match (arguments.development, arguments.open) {
        (true, _) => (PublicAccess::Development, "development"),
        (false, true) => (PublicAccess::Open, "open"),
        (false, false) => (PublicAccess::Closed, "closed"),
    };
    let created = match arguments.options.open().await? {
        Place::Database(database) => {
            let created = creation::create(&database.operations, &database.caller, name, access).await;
            created.map(Created::from)
        }
        Place::Console(api) => api.post(&[&"apps"], &json!({"name": name, "access": word})).await,
    };
    let Created { id, api_key, api_secret } = match created {
        Err(OperationError::Conflict(Conflict::NameTaken)) => bail!(
            "an app named {name:?} already exists; choose another name, or renew its secret with \
             `tidings app rotate-secret`"
        ),
        created => created?,
    };
    let report = json!({
        "id": id, "name": name, "apiKey": api_key, "apiSecret": api_secret, "development": arguments.development,
    });
    let text = format!(
        "Created app {name} with id {id}.\n\n  API key     {api_key}\n  API secret  {api_secret}\n\n\
         Keep the secret: it is not shown again.\n{}",
        requirement(access)
    );
    Ok(arguments.options.report(&report, text))
}

/// A new app with its credentials.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    id: String,
    api_key: String,
    api_secret: String,
}

impl From<CreatedApp> for Created {
    fn from(created: CreatedApp) -> Created {
        let api_secret = created.api_secret.expose_secret().to_owned();
        Created { id: created.id.to_string(), api_key: created.api_key, api_secret }
    }
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
    let apps: Vec<AppRow> = match options.open().await? {
        Place::Database(database) => rows(apps::list(&database.operations, &database.caller).await?),
        Place::Console(api) => api.whole(&[&"apps"], Query::default()).await?,
    };
    let header = ["ID", "NAME", "API KEY", "STATE", "SECRETS", "CREATED"];
    Ok(Listing::new(apps).render(options.json, header, |app| {
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rotated {
    api_secret: String,
}

async fn rotate(arguments: &RotateArguments) -> anyhow::Result<String> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let grace = arguments.grace;
    let rotated = match place {
        Place::Database(database) => {
            let rotated = keys::rotate_secret(&database.operations, &database.caller, app.id, grace).await;
            rotated.map(|secret| secret.expose_secret().to_owned())
        }
        Place::Console(api) => {
            let body = json!({"graceSeconds": grace.as_secs()});
            let rotated = api.post(&[&"apps", &app.id, &"secrets"], &body).await;
            rotated.map(|rotated: Rotated| rotated.api_secret)
        }
    };
    let secret = rotated.or_missing(|| DELETED.to_owned())?;
    let report =
        json!({"id": app.id.to_string(), "name": app.name, "apiKey": app.api_key, "apiSecret": secret});
    let text = format!(
        "Renewed the secret of app {} with id {}.\n\n  API key     {}\n  API secret  {secret}\n\n\
         Keep the secret: it is not shown again. The previous one stays valid for {}.\n",
        app.name,
        app.id,
        app.api_key,
        humantime::format_duration(grace),
    );
    Ok(arguments.options.report(&report, text))
}
