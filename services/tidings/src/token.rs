use std::time::Duration;

use clap::Subcommand;
use domain::{Role, Timestamp};
use operations::tokens::{self, AdminToken, CreatedToken, LIFETIMES, NewToken};
use operations::{Conflict, OperationError};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use service_kit::clock;

use crate::admin_api::Query;
use crate::listing::{Listing, rows};
use crate::operator::parse_role;
use crate::options::{self, Options};
use crate::place::Place;
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

/// A new token with its text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    token: String,
    expires_at: Timestamp,
}

impl From<CreatedToken> for Created {
    fn from(created: CreatedToken) -> Created {
        Created { token: created.text.expose_secret().to_owned(), expires_at: created.expires_at }
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let app = place.app_id(arguments.app.as_deref()).await?;
    let (name, role, lifetime) = (arguments.name.as_str(), arguments.role, arguments.expires_in);
    let app_id = app.map(|app| app.to_string());
    let created = match place {
        Place::Database(database) => {
            let new = NewToken { name, role, app, lifetime };
            tokens::create(&database.operations, &database.caller, new).await.map(Created::from)
        }
        Place::Console(api) => {
            let seconds = lifetime.as_secs();
            let body = json!({"name": name, "role": role, "app": app_id, "expiresInSeconds": seconds});
            api.post(&[&"tokens"], &body).await
        }
    };
    let Created { token, expires_at } = match created {
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            anyhow::bail!("a token has or had the name {name:?}; choose another one")
        }
        created => created?,
    };
    let report = json!({
        "name": name, "role": role, "appId": app_id, "expiresAt": expires_at, "token": token,
    });
    let text = format!(
        "{token}\n\nThis is the only time that the token is shown. It is valid until {expires_at}.\n"
    );
    Ok(arguments.options.report(&report, text))
}

/// A token without its text.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenRow {
    name: String,
    role: Role,
    app_id: Option<String>,
    #[serde(skip_serializing)]
    state: String,
    created_by: String,
    created_at: Timestamp,
    expires_at: Timestamp,
    revoked_at: Option<Timestamp>,
    seen_at: Option<Timestamp>,
}

impl From<AdminToken> for TokenRow {
    fn from(token: AdminToken) -> TokenRow {
        TokenRow {
            state: token.state(clock::now()).to_owned(),
            name: token.name,
            role: token.role,
            app_id: token.app.map(|app| app.to_string()),
            created_by: token.created_by,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            seen_at: token.seen_at,
        }
    }
}

async fn list(options: &Options) -> anyhow::Result<String> {
    let found: Vec<TokenRow> = match options.open().await? {
        Place::Database(database) => rows(tokens::list(&database.operations, &database.caller, None).await?),
        Place::Console(api) => api.whole(&[&"tokens"], Query::default()).await?,
    };
    let header = ["NAME", "ROLE", "STATE", "EXPIRES", "LATEST CALL", "CREATED BY"];
    Ok(Listing::new(found).render(options.json, header, |token| {
        let scope = token.app_id.as_ref().map(|app| format!(" of app {app}")).unwrap_or_default();
        [
            token.name.clone(),
            format!("{}{scope}", token.role),
            token.state.clone(),
            token.expires_at.to_string(),
            token.seen_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            token.created_by.clone(),
        ]
    }))
}

async fn revoke(named: &Named) -> anyhow::Result<String> {
    let name = &named.name;
    let revoked = match named.options.open().await? {
        Place::Database(database) => tokens::revoke(&database.operations, &database.caller, name).await,
        Place::Console(api) => api.delete(&[&"tokens", name]).await,
    };
    revoked.or_missing(|| format!("no valid token has the name {name:?}; `tidings token list` lists all"))?;
    Ok(named
        .options
        .report(&json!({"name": name, "revoked": true}), format!("The token {name} is revoked.\n")))
}
