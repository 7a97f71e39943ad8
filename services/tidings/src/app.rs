//! `tidings app`: apps, their credentials and their switches.

mod link_key;
mod set;
mod signing_key;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use credentials::secrets::{app_secret_context, random_token, sha256};
use credentials::{MasterKey, link, vapid};
use domain::AppId;
use domain::fields::check_identifier;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use store::Store;
use store::control::app::{App, NewApp, NewSecret};

use crate::control_plane::actor;
use crate::listing::Listing;
use crate::options::{self, Options};
use crate::refused::InvalidInput;

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

/// A new app, with its API secret in plain text.
pub(crate) struct CreatedApp {
    pub(crate) id: AppId,
    pub(crate) api_key: String,
    pub(crate) api_secret: SecretString,
}

/// Access that a new app allows to callers with only its public API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicAccess {
    /// No access: API calls by users need a bearer token.
    Closed,
    /// Callers with only the API key may act as any user whose id they know.
    Open,
    /// Like [`PublicAccess::Open`]. In addition, callers with only the API key may set the addresses in profiles, and
    /// templates see all keys of a profile.
    Development,
}

/// Creates an app with new credentials. Returns None if the name is taken.
pub(crate) async fn create_with_credentials(
    store: &Store,
    master_key: &MasterKey,
    name: &str,
    openness: PublicAccess,
) -> anyhow::Result<Option<CreatedApp>> {
    let api_key = random_token("ak_", 16)?;
    let app = NewApp { name, api_key: &api_key, development: openness == PublicAccess::Development };
    let Some(mut draft) = store.control().create_app(app, &actor()).await? else {
        return Ok(None);
    };
    if openness != PublicAccess::Development {
        draft.distrust_users(openness == PublicAccess::Closed).await?;
    }
    let api_secret = SecretString::from(random_token("as_", 32)?);
    let secret = api_secret.expose_secret().as_bytes();
    let sealed = master_key.seal(&app_secret_context(draft.id()), secret)?;
    let id = draft.commit(NewSecret { digest: &sha256(secret), sealed: &sealed }).await?;
    vapid::create(store, master_key, id).await?;
    link::create(store, master_key, id).await?;
    Ok(Some(CreatedApp { id, api_key, api_secret }))
}

/// Creates a new secret for an existing app, and returns the secret. The previous one stays valid for `grace`.
pub(crate) async fn renew_secret(
    store: &Store,
    master_key: &MasterKey,
    app: AppId,
    grace: Duration,
) -> anyhow::Result<SecretString> {
    let api_secret = SecretString::from(random_token("as_", 32)?);
    let secret = api_secret.expose_secret().as_bytes();
    let sealed = master_key.seal(&app_secret_context(app), secret)?;
    let new = NewSecret { digest: &sha256(secret), sealed: &sealed };
    let rotated = store.control().rotate_secret(app, new, grace, &actor()).await?;
    rotated.then_some(api_secret).context("the app has just been deleted")
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let mut problems = Vec::new();
    if check_identifier("the app's name", arguments.name.clone(), &mut problems).is_none() {
        let messages: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
        return Err(InvalidInput(messages.join("; ")).into());
    }
    let control_plane = arguments.options.open().await?;
    let master_key = control_plane.master_key().await?;
    let name = &arguments.name;
    let openness = match (arguments.development, arguments.open) {
        (true, _) => PublicAccess::Development,
        (false, true) => PublicAccess::Open,
        (false, false) => PublicAccess::Closed,
    };
    let created = create_with_credentials(&control_plane.store, &master_key, name, openness).await?;
    let Some(CreatedApp { id, api_key, api_secret }) = created else {
        bail!(
            "an app named {name:?} already exists; choose another name, or renew its secret with \
             `tidings app rotate-secret`"
        );
    };
    let api_secret = api_secret.expose_secret();
    let report = json!({
        "id": id.to_string(), "name": name, "apiKey": api_key, "apiSecret": api_secret,
        "development": arguments.development,
    });
    let text = format!(
        "Created app {name} with id {id}.\n\n  API key     {api_key}\n  API secret  {api_secret}\n\n\
         Keep the secret: it is not shown again.\n{}",
        requirement(openness)
    );
    Ok(arguments.options.report(&report, text))
}

/// Describes in one line which credentials callers of the app need.
fn requirement(openness: PublicAccess) -> &'static str {
    match openness {
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
    let apps = options.open().await?.store.control().list_apps().await?;
    let header = ["ID", "NAME", "API KEY", "STATE", "SECRETS", "CREATED"];
    Ok(Listing::new(apps).render(options.json, as_json, header, |app| {
        let state = match (app.disabled, app.development) {
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
fn as_json(app: &App) -> serde_json::Value {
    let secrets: Vec<_> = app.secrets.iter().map(|secret| json!({"expiresAt": secret.expires_at})).collect();
    json!({
        "id": app.id.to_string(),
        "name": app.name,
        "apiKey": app.api_key,
        "disabled": app.disabled,
        "development": app.development,
        "secureMode": app.secure_mode,
        "hmac": app.hmac,
        "requireExp": app.require_exp,
        "tokenSubject": app.token_subject,
        "templateProfile": app.template_profile,
        "maxUsers": app.max_users,
        "maxCategories": app.max_categories,
        "maxDevices": app.max_devices,
        "maxTopics": app.max_topics,
        "maxSubscriptions": app.max_subscriptions,
        "maxSendMegabytes": app.max_send_megabytes,
        "maxFileMegabytes": app.max_file_megabytes,
        "realtimeConnections": app.realtime_connections,
        "keepSends": app.keep_sends,
        "addressKeys": if app.guards_addresses() { "guarded" } else { "open" },
        "corsOrigins": app.cors_origins,
        "rateLimit": app.rate_limit,
        "transactionalRate": app.transactional_rate,
        "createdAt": app.created_at,
        "secrets": secrets,
        "signingKeys": app.signing_keys.iter().map(signing_key::as_json).collect::<serde_json::Value>(),
    })
}

async fn rotate(arguments: &RotateArguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let master_key = control_plane.master_key().await?;
    let secret = renew_secret(&control_plane.store, &master_key, app.id, arguments.grace).await?;
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
