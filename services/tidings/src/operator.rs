use std::fmt::{self, Display};

use clap::Subcommand;
use domain::{AppId, Role, Timestamp};
use operations::operators::roles::{self, SeenRole};
use operations::{Conflict, OperationError, operators};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::control::operator::Operator;

use crate::admin_api::Query;
use crate::control_plane::ControlPlane;
use crate::listing::{Listing, rows};
use crate::options::Options;
use crate::place::Place;
use crate::refused::OrMissing as _;

/// Create, list and disable the operators who sign in to the console, and change their roles.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  tidings operator create ada@example.com --admin
  tidings operator create bob@example.com --role support --app shop
  tidings operator link ada@example.com")]
pub(crate) enum Command {
    Create(CreateArguments),
    /// Print a link with which an operator signs in and chooses a new password. It is valid for an hour, once, and replaces earlier
    /// links.
    #[command(after_help = "Example:
  tidings operator link ada@example.com")]
    Link(Named),
    Grant(GrantArguments),
    Revoke(RevokeArguments),
    /// List the operators with their roles.
    #[command(after_help = "Example:
  tidings operator list")]
    List(Options),
    /// Disable an operator: all sessions and links end immediately.
    #[command(after_help = "Example:
  tidings operator disable bob@example.com")]
    Disable(Named),
    /// Enable an operator again.
    #[command(after_help = "Example:
  tidings operator enable bob@example.com")]
    Enable(Named),
    /// Unlink an operator from the OpenID provider: the roles by group and all sessions end. The next identity with the
    /// operator's email address is linked instead.
    #[command(after_help = "Example:
  tidings operator unlink bob@example.com")]
    Unlink(Named),
}

/// Create an operator, and print a link with which the operator chooses a password. The link is valid for an hour, once.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("grant").required(true).args(["admin", "role"])),
    after_help = "Roles, each including those before it: viewer, support, editor, operator, admin.

Examples:
  tidings operator create ada@example.com --admin
  tidings operator create bob@example.com --role support --app shop"
)]
pub(crate) struct CreateArguments {
    /// Email address with which the operator signs in
    email: String,
    /// Grant the role admin in all apps
    #[arg(long, conflicts_with = "app")]
    admin: bool,
    /// Grant this role
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Option<Role>,
    /// Grant the role in this app only, by name or id
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Give an operator a role in an app or in all, in place of the former one there. The operator's sessions end.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("scope").required(true).args(["app", "all"])),
    after_help = "Roles, each including those before it: viewer, support, editor, operator, admin.

Examples:
  tidings operator grant bob@example.com --role editor --app shop
  tidings operator grant ada@example.com --role admin --all"
)]
pub(crate) struct GrantArguments {
    /// Email address of the operator
    email: String,
    /// Role to give
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    role: Role,
    /// In this app, by name or id
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// In all apps and the installation itself
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: Options,
}

/// Remove a role of an operator. The operator's sessions end. The last administrator keeps the role.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("scope").required(true).args(["app", "all"])),
    after_help = "Examples:
  tidings operator revoke bob@example.com --app shop
  tidings operator revoke ada@example.com --all"
)]
pub(crate) struct RevokeArguments {
    /// Email address of the operator
    email: String,
    /// The role in this app, by name or id
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// The role in all apps
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Email address of the operator
    email: String,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn parse_role(text: &str) -> Result<Role, String> {
    let known = || Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    text.parse().map_err(|_| format!("expected one of {}", known()))
}

pub(crate) async fn run(command: Command) -> anyhow::Result<String> {
    match command {
        Command::Create(arguments) => create(&arguments).await,
        Command::Link(named) => link(&named).await,
        Command::Grant(arguments) => grant(&arguments).await,
        Command::Revoke(arguments) => revoke(&arguments).await,
        Command::List(options) => list(&options).await,
        Command::Disable(named) => disable(&named, true).await,
        Command::Enable(named) => disable(&named, false).await,
        Command::Unlink(named) => unlink(&named).await,
    }
}

/// A link with which an operator signs in.
#[derive(Deserialize)]
struct Link {
    link: String,
}

impl Link {
    fn new(database: &ControlPlane, code: &str) -> Link {
        Link { link: console::welcome_link(&database.console_url, code) }
    }
}

async fn create(arguments: &CreateArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let app = place.app_id(arguments.app.as_deref()).await?;
    let (email, role) = (&arguments.email, arguments.role.unwrap_or(Role::Admin));
    let created = match place {
        Place::Database(database) => {
            let code = operators::create(&database.operations, &database.caller, email, app, role).await;
            code.map(|code| Link::new(&database, &code))
        }
        Place::Console(api) => {
            let app = app.map(|app| app.to_string());
            api.post(&[&"operators"], &json!({"email": email, "role": role, "app": app})).await
        }
    };
    let created = created.map_err(|error| match error {
        OperationError::Conflict(Conflict::NameTaken) => anyhow::anyhow!(
            "there is an operator with this email; `tidings operator link {email}` prints a link for them"
        ),
        error => crate::refused::from_operation(error),
    })?;
    Ok(report(&arguments.options, email, &created))
}

async fn link(named: &Named) -> anyhow::Result<String> {
    let linked = match named.options.open().await? {
        Place::Database(database) => {
            let code = operators::link(&database.operations, &database.caller, &named.email, false).await;
            code.map(|code| Link::new(&database, &code))
        }
        Place::Console(api) => api.post(&[&"operators", &named.email, &"link"], &json!({})).await,
    };
    Ok(report(&named.options, &named.email, &linked.or_missing(|| missing(&named.email))?))
}

fn report(options: &Options, email: &str, Link { link }: &Link) -> String {
    let text = format!("{link}\n\n{email} chooses a password there. The link is valid for an hour, once.\n");
    options.report(&json!({"email": email, "link": link}), text)
}

async fn grant(arguments: &GrantArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let app = place.app_id(arguments.app.as_deref()).await?;
    let (email, role) = (&arguments.email, arguments.role);
    let app_id = app.map(|app| app.to_string());
    let granted = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            roles::grant(operations, caller, email, (app, role), SeenRole::Any).await
        }
        Place::Console(api) => {
            let body = json!({"role": role, "app": app_id});
            api.call(Method::PUT, &[&"operators", email, &"role"], &Query::default(), Some(&body)).await
        }
    };
    granted.or_missing(|| missing(email))?;
    let report = json!({"email": email, "appId": app_id, "role": role});
    let place = arguments.app.as_ref().map_or_else(|| "all apps".to_owned(), |app| format!("app {app}"));
    Ok(arguments.options.report(&report, format!("{email} has the role {role} in {place}.\n")))
}

async fn revoke(arguments: &RevokeArguments) -> anyhow::Result<String> {
    let place = arguments.options.open().await?;
    let app = place.app_id(arguments.app.as_deref()).await?;
    let email = &arguments.email;
    let revoked = match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            roles::revoke(operations, caller, email, app, SeenRole::Any).await
        }
        Place::Console(api) => {
            let query = Query::default().with("app", app);
            api.call(Method::DELETE, &[&"operators", email, &"role"], &query, None).await
        }
    };
    revoked.or_missing(|| {
        format!("there is no operator {email} with a role there; `tidings operator list` lists all")
    })?;
    let report = json!({"email": email, "appId": app.map(|app| app.to_string()), "role": null});
    Ok(arguments.options.report(&report, format!("{email} has no role there any more.\n")))
}

fn missing(email: &str) -> String {
    format!("there is no operator {email}, or it is disabled; `tidings operator list` lists all")
}

/// An operator.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OperatorRow {
    email: String,
    grants: Vec<GrantRow>,
    #[serde(alias = "claimed")]
    grants_by_claim: Vec<GrantRow>,
    disabled: bool,
    created_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrantRow {
    app_id: Option<String>,
    role: Role,
}

impl From<(Option<AppId>, Role)> for GrantRow {
    fn from((app, role): (Option<AppId>, Role)) -> GrantRow {
        GrantRow { app_id: app.map(|app| app.to_string()), role }
    }
}

impl Display for GrantRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.app_id {
            Some(app) => write!(f, "{} of app {app}", self.role),
            None => self.role.fmt(f),
        }
    }
}

impl From<Operator> for OperatorRow {
    fn from(operator: Operator) -> OperatorRow {
        OperatorRow {
            email: operator.email,
            grants: rows(operator.grants),
            grants_by_claim: rows(operator.claimed),
            disabled: operator.disabled,
            created_at: operator.created_at,
        }
    }
}

async fn list(options: &Options) -> anyhow::Result<String> {
    let found: Vec<OperatorRow> = match options.open().await? {
        Place::Database(database) => rows(operators::list(&database.operations, &database.caller).await?),
        Place::Console(api) => api.whole(&[&"operators"], Query::default()).await?,
    };
    Ok(Listing::new(found).render(options.json, ["EMAIL", "ROLES", "STATE", "SINCE"], |operator| {
        let claimed = operator.grants_by_claim.iter().map(|grant| format!("{grant} by claim"));
        let roles: Vec<_> = operator.grants.iter().map(GrantRow::to_string).chain(claimed).collect();
        let state = if operator.disabled { "disabled" } else { "enabled" };
        [operator.email.clone(), roles.join(", "), state.to_owned(), operator.created_at.to_string()]
    }))
}

async fn disable(named: &Named, disabled: bool) -> anyhow::Result<String> {
    let done = match named.options.open().await? {
        Place::Database(database) => {
            operators::disable(&database.operations, &database.caller, &named.email, disabled).await
        }
        Place::Console(api) => {
            let body = json!({"disabled": disabled});
            api.call(Method::PATCH, &[&"operators", &named.email], &Query::default(), Some(&body)).await
        }
    };
    done.or_missing(|| missing(&named.email))?;
    let state = if disabled { "disabled" } else { "enabled" };
    let report = json!({"email": named.email, "disabled": disabled});
    Ok(named.options.report(&report, format!("{} is {state}.\n", named.email)))
}

async fn unlink(named: &Named) -> anyhow::Result<String> {
    let done = match named.options.open().await? {
        Place::Database(database) => {
            operators::unlink(&database.operations, &database.caller, &named.email).await
        }
        Place::Console(api) => {
            let path: [&dyn Display; 3] = [&"operators", &named.email, &"identity"];
            api.call(Method::DELETE, &path, &Query::default(), None).await
        }
    };
    done.or_missing(|| format!("there is no operator {}, or it is linked to no identity", named.email))?;
    let report = json!({"email": named.email, "linked": false});
    Ok(named.options.report(&report, format!("{} is linked to no identity any more.\n", named.email)))
}
