//! Tokens of the admin API.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::Role;
use operations::tokens::{self, AdminToken, NewToken};
use operations::{Conflict, Object, OperationError, Permission};
use secrecy::ExposeSecret as _;
use service_kit::clock;

use super::confirm::{Choice, Question, SecretPage, ask as ask_question};
use super::erase::status;
use super::operators::{ROLES, read_scope, scope};
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::{Change, asks_password};
use crate::console::Console;
use crate::text;

const LIFETIME: Choice = Choice {
    name: "lifetime",
    label: "Valid for",
    options: &[
        ("90d", "90 days"),
        ("1d", "a day"),
        ("30d", "30 days"),
        ("180d", "180 days"),
        ("365d", "a year"),
    ],
};

struct TokenRow {
    token: AdminToken,
    scope: String,
    state: &'static str,
    /// Email of the operator who created it, or the author in the form of the audit log.
    creator: String,
}

#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage {
    visit: Visit,
    rows: Part<Vec<TokenRow>>,
}

#[derive(Template)]
#[template(path = "token_new.html")]
struct NewPage {
    visit: Visit,
    name: String,
    role: Option<Role>,
    scope: String,
    lifetime: String,
    asks_password: bool,
    problem: Option<String>,
}

fn path(visit: &Visit, below: &str) -> String {
    format!("{}/tokens{below}", visit.base)
}

pub(crate) async fn list(console: &Console, visit: Visit) -> Answer {
    let listed = part(tokens::list(&console.operations, &visit.operator.caller, None).await)?;
    let now = clock::now();
    let row = |token: AdminToken| TokenRow {
        scope: scope(&visit, token.app),
        creator: match &token.creator {
            Some(email) if token.created_by.starts_with("operator:") => email.clone(),
            _ => token.created_by.clone(),
        },
        state: match token.state(now) {
            "valid" if token.role_now.is_none() => "without a creator",
            state => state,
        },
        token,
    };
    let rows = listed.map(|tokens| tokens.into_iter().map(row).collect());
    page(StatusCode::OK, &TokensPage { visit, rows })
}

pub(crate) async fn ask_new(console: &Console, visit: Visit, request: &HttpRequest) -> Answer {
    visit.operator.caller.may(Permission::ManageTokens, None)?;
    let asks_password = asks_password(console, &visit, request).await?;
    let (name, scope, lifetime) = (String::new(), "all".to_owned(), String::new());
    let asked = NewPage { visit, name, role: None, scope, lifetime, asks_password, problem: None };
    page(StatusCode::OK, &asked)
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    change.visit.operator.caller.may(Permission::ManageTokens, None)?;
    let text = |name: &str| change.form.text(name).unwrap_or_default().to_owned();
    let (name, scope, lifetime) = (text("name"), text("scope"), text("lifetime"));
    let role = change.form.text("role").and_then(|role| role.parse().ok());
    let valid_for = change.chosen(&LIFETIME).ok().and_then(text::duration);
    let (status, problem) = match (role, read_scope(&change.visit, &scope), valid_for) {
        (Some(role), Some(app), Some(lifetime)) => match change.confirm_operator().await? {
            Some(problem) => (status(&problem), problem.to_string()),
            None => match create_one(&change, NewToken { name: &name, role, app, lifetime }).await? {
                Ok(secret) => return show(change.visit, &name, role, lifetime, secret),
                Err(problem) => problem,
            },
        },
        _ => (StatusCode::BAD_REQUEST, "Choose a role, an app that exists, and a time.".to_owned()),
    };
    let asks_password = change.asks_password().await?;
    let problem = Some(problem);
    page(status, &NewPage { visit: change.visit, name, role, scope, lifetime, asks_password, problem })
}

/// Returns the token, or the status and the text of a problem with a field.
async fn create_one(
    change: &Change<'_>,
    new: NewToken<'_>,
) -> Result<Result<String, (StatusCode, String)>, Refusal> {
    match tokens::create(&change.console.operations, &change.visit.operator.caller, new).await {
        Ok(created) => Ok(Ok(created.text.expose_secret().to_owned())),
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            Ok(Err((StatusCode::CONFLICT, "A token has or had this name. Choose another one.".to_owned())))
        }
        Err(OperationError::Invalid(problems)) => {
            Ok(Err((StatusCode::BAD_REQUEST, text::sentence(&domain::problem::joined(&problems)))))
        }
        Err(error) => Err(error.into()),
    }
}

fn show(visit: Visit, name: &str, role: Role, lifetime: Duration, secret: String) -> Answer {
    let title = format!("The token {name} exists");
    let purpose =
        "A program sends it as a bearer token to the admin API. It never has more rights than you have."
            .to_owned();
    let days = lifetime.as_secs() / 86_400;
    let facts = vec![("Role", role.to_string()), ("Valid for", format!("{days} days"))];
    let next = (path(&visit, ""), "Tokens");
    page(StatusCode::CREATED, &SecretPage { visit, title, purpose, facts, name: "Token", secret, next })
}

/// Returns the valid token with a number.
async fn found(console: &Console, visit: &Visit, number: &str) -> Result<AdminToken, Refusal> {
    let listed = tokens::list(&console.operations, &visit.operator.caller, None).await?;
    let now = clock::now();
    let is_it = |token: &AdminToken| token.id.to_string() == number && token.state(now) == "valid";
    Ok(listed.into_iter().find(is_it).ok_or(OperationError::NotFound(Object::Token))?)
}

fn question(visit: &Visit, token: &AdminToken) -> Question {
    Question {
        title: format!("Revoke the token {}?", token.name),
        effect:
            "The admin API refuses it from the next call on. This cannot be undone, and its name stays taken."
                .to_owned(),
        action: path(visit, &format!("/{}/revoke", token.id)),
        back: (path(visit, ""), "Tokens"),
        button: "Revoke the token",
        is_danger: true,
        choice: None,
        seen: token.id.to_string(),
        is_step_up: false,
    }
}

pub(crate) async fn ask_revoke(
    console: &Console,
    visit: Visit,
    request: &HttpRequest,
    number: &str,
) -> Answer {
    let question = question(&visit, &found(console, &visit, number).await?);
    ask_question(console, visit, request, &question).await
}

pub(crate) async fn revoke(change: Change<'_>, number: &str) -> Answer {
    let token = found(change.console, &change.visit, number).await?;
    change.seen()?;
    tokens::revoke(&change.console.operations, &change.visit.operator.caller, &token.name).await?;
    Ok(see_other(path(&change.visit, "?done=token-revoked")))
}
