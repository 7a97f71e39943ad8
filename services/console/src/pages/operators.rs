//! The operators, and creating one.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::{AppId, Role};
use operations::{Conflict, OperationError, Permission, operators};
use store::control::operator::Operator;

use super::erase::status;
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part};
use crate::changes::{Change, asks_password};
use crate::console::{Console, welcome_link};
use crate::route::segment;
use crate::text;

/// A role in a list.
pub(crate) struct RoleText {
    pub(crate) role: Role,
    /// Name of the app, or `all apps`.
    pub(crate) scope: String,
    /// Value of the field that names the app.
    pub(crate) value: String,
    pub(crate) by_claim: bool,
}

/// Returns the roles of an operator: those given by hand, then those by claim.
pub(crate) fn roles(visit: &Visit, operator: &Operator) -> Vec<RoleText> {
    let text = |by_claim: bool| {
        move |&(app, role): &(Option<AppId>, Role)| RoleText {
            role,
            scope: scope(visit, app),
            value: scope_value(app),
            by_claim,
        }
    };
    operator.grants.iter().map(text(false)).chain(operator.claimed.iter().map(text(true))).collect()
}

/// Returns the name of an app, or `all apps`.
pub(crate) fn scope(visit: &Visit, app: Option<AppId>) -> String {
    let Some(id) = app else { return "all apps".to_owned() };
    let app = visit.apps.iter().find(|app| app.id == id);
    app.map_or_else(|| format!("app {id}"), |app| app.name.clone())
}

pub(crate) fn scope_value(app: Option<AppId>) -> String {
    app.map_or_else(|| "all".to_owned(), |app| app.to_string())
}

/// Reads the field that names one of the apps, or all.
pub(crate) fn read_scope(visit: &Visit, value: &str) -> Option<Option<AppId>> {
    if value == "all" {
        return Some(None);
    }
    visit.apps.iter().find(|app| app.id.to_string() == value).map(|app| Some(app.id))
}

pub(crate) fn operator_path(visit: &Visit, email: &str) -> String {
    format!("{}/operators/{}", visit.base, segment(email))
}

struct OperatorRow {
    path: String,
    operator: Operator,
    roles: Vec<RoleText>,
}

#[derive(Template)]
#[template(path = "operators.html")]
struct OperatorsPage {
    visit: Visit,
    rows: Part<Vec<OperatorRow>>,
}

pub(crate) async fn list(console: &Console, visit: Visit) -> Answer {
    let read = part(operators::list(&console.operations, &visit.operator.caller).await)?;
    let rows = read.map(|operators| {
        let row = |operator: Operator| OperatorRow {
            path: operator_path(&visit, &operator.email),
            roles: roles(&visit, &operator),
            operator,
        };
        operators.into_iter().map(row).collect()
    });
    page(StatusCode::OK, &OperatorsPage { visit, rows })
}

/// Names of all roles with what they may do.
pub(crate) const ROLES: [(Role, &str); 5] = [
    (Role::Viewer, "reads, with masked targets"),
    (Role::Support, "helps single people"),
    (Role::Editor, "changes templates"),
    (Role::Operator, "keeps deliveries running"),
    (Role::Admin, "manages apps and operators"),
];

#[derive(Template)]
#[template(path = "new_operator.html")]
struct NewPage {
    visit: Visit,
    email: String,
    role: Option<Role>,
    scope: String,
    asks_password: bool,
    problem: Option<String>,
}

pub(crate) async fn ask(console: &Console, visit: Visit, request: &HttpRequest) -> Answer {
    visit.operator.caller.may(Permission::ManageOperators, None)?;
    let asks_password = asks_password(console, &visit, request).await?;
    let (email, scope) = (String::new(), "all".to_owned());
    page(StatusCode::OK, &NewPage { visit, email, role: None, scope, asks_password, problem: None })
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    change.visit.operator.caller.may(Permission::ManageOperators, None)?;
    let email = change.form.text("email").unwrap_or_default().to_owned();
    let scope = change.form.text("scope").unwrap_or_default().to_owned();
    let role = change.form.text("role").and_then(|role| role.parse().ok());
    let (status, problem) = match (role, read_scope(&change.visit, &scope)) {
        (Some(role), Some(app)) => match change.confirm_operator().await? {
            Some(problem) => (status(&problem), problem.to_string()),
            None => match create_one(&change, &email, app, role).await? {
                Ok(code) => return show_link(change.console, change.visit, &email, &code),
                Err(problem) => problem,
            },
        },
        _ => (StatusCode::BAD_REQUEST, "Choose a role, and an app that exists.".to_owned()),
    };
    let asks_password = change.asks_password().await?;
    page(status, &NewPage { visit: change.visit, email, role, scope, asks_password, problem: Some(problem) })
}

/// Returns the code of the link, or the status and the text of a problem with a field.
async fn create_one(
    change: &Change<'_>,
    email: &str,
    app: Option<AppId>,
    role: Role,
) -> Result<Result<String, (StatusCode, String)>, Refusal> {
    let (operations, caller) = (&change.console.operations, &change.visit.operator.caller);
    match operators::create(operations, caller, email, app, role).await {
        Ok(code) => Ok(Ok(code)),
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            Ok(Err((StatusCode::CONFLICT, "There is an operator with this email already.".to_owned())))
        }
        Err(OperationError::Invalid(problems)) => {
            Ok(Err((StatusCode::BAD_REQUEST, domain::problem::joined(&problems))))
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Template)]
#[template(path = "operator_link.html")]
struct LinkPage {
    visit: Visit,
    email: String,
    link: String,
    /// False if the link signs in without a password.
    passwords: bool,
}

/// Shows the link with a code. It is not stored, so it is shown once.
pub(crate) fn show_link(console: &Console, visit: Visit, email: &str, code: &str) -> Answer {
    let link = welcome_link(&console.url, code);
    let (email, passwords) = (email.trim().to_lowercase(), console.sign_ins.uses_passwords());
    page(StatusCode::OK, &LinkPage { visit, email, link, passwords })
}
