use std::time::Duration;

use clap::Subcommand;
use domain::Role;
use operations::tokens::{self, AdminToken, CreatedToken, LIFETIMES, NewToken};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use service_kit::clock;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::operator::parse_role;
use crate::options::{self, Options};
use crate::refused::OrMissing as _;

/// Create, list and revoke the tokens with which programs call the admin API.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tidings token create ci --role editor --app shop
  tidings token list
  tidings token revoke ci")]
pub(crate) enum Command {
    Create(CreateArguments),
    /// List the tokens, latest first, with their roles and their latest calls.
    #[command(after_help = "Example:
  tidings token list --json")]
    List(Options),
    /// Revoke a token. The admin API refuses it from the next call on.
    #[command(after_help = "Example:
  tidings token revoke ci")]
    Revoke(Named),
}

/// Create a token of the admin API, and print it once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Roles, each including those before it: viewer, support, editor, operator, admin.

Examples:
  tidings token create ci --role editor --app shop
  tidings token create terraform --role admin --expires-in 30d")]
pub(crate) struct CreateArguments {
    /// Name of the token in the audit log. No other token has it, also after this one has ended
    name: String,
    /// Grant this role
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Role,
    /// Grant the role in this app only, by name or id
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Time for which the token is valid, from 1h to 366d
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = parse_lifetime)]
    expires_in: Duration,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Name of the token
    name: String,
    #[command(flatten)]
    options: Options,
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    options::parse_time(text, LIFETIMES.2, "at most 366 days")
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Create(arguments) => create(&arguments).await,
        Command::List(options) => list(&options).await,
        Command::Revoke(named) => revoke(&named).await,
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let control_plane = arguments.options.open().await?;
    let app = control_plane.app_id(arguments.app.as_deref()).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let (name, role) = (arguments.name.as_str(), arguments.role);
    let new = NewToken { name, role, app, lifetime: arguments.expires_in };
    let CreatedToken { text, expires_at } = match tokens::create(&operations, &caller, new).await {
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            anyhow::bail!("a token has or had the name {name:?}; choose another one")
        }
        created => created?,
    };
    let token = text.expose_secret();
    let report = json!({
        "name": name, "role": role, "appId": app.map(|app| app.to_string()), "expiresAt": expires_at, "token": token,
    });
    let text = format!(
        "{token}\n\nThis is the only time that the token is shown. It is valid until {expires_at}.\n"
    );
    Ok(arguments.options.report(&report, text))
}

async fn list(options: &Options) -> anyhow::Result<String> {
    let ControlPlane { operations, caller, .. } = options.open().await?;
    let found = tokens::list(&operations, &caller, None).await?;
    let header = ["NAME", "ROLE", "STATE", "EXPIRES", "LATEST CALL", "CREATED BY"];
    Ok(Listing::new(found).render(options.json, as_json, header, |token| {
        let scope = token.app.map(|app| format!(" of app {app}")).unwrap_or_default();
        [
            token.name.clone(),
            format!("{}{scope}", token.role),
            token.state(clock::now()).to_owned(),
            token.expires_at.to_string(),
            token.seen_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            token.created_by.clone(),
        ]
    }))
}

fn as_json(token: &AdminToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role,
        "appId": token.app.map(|app| app.to_string()),
        "createdBy": token.created_by,
        "createdAt": token.created_at,
        "expiresAt": token.expires_at,
        "revokedAt": token.revoked_at,
        "seenAt": token.seen_at,
    })
}

async fn revoke(named: &Named) -> anyhow::Result<String> {
    let ControlPlane { operations, caller, .. } = named.options.open().await?;
    let name = &named.name;
    let revoked = tokens::revoke(&operations, &caller, name).await;
    revoked.or_missing(|| format!("no valid token has the name {name:?}; `tidings token list` lists all"))?;
    Ok(named
        .options
        .report(&json!({"name": name, "revoked": true}), format!("The token {name} is revoked.\n")))
}
