//! One operator: roles, links, and whether the operator may sign in.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::{AppId, Role};
use operations::operators::roles::{self, SeenRole};
use operations::{Permission, operators};
use store::control::operator::Operator;

use super::erase::status;
use super::operators::{ROLES, RoleText, operator_path, read_scope, scope, scope_value, show_link};
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::{Change, asks_password};
use crate::console::Console;
use crate::query::Pairs;
use crate::text;

#[derive(Template)]
#[template(path = "operator.html")]
struct OperatorPage {
    visit: Visit,
    operator: Operator,
    path: String,
    roles: Vec<RoleText>,
    is_self: bool,
}

pub(crate) async fn show(console: &Console, visit: Visit, email: &str) -> Answer {
    let operator = operators::find(&console.operations, &visit.operator.caller, email).await?;
    let roles = super::operators::roles(&visit, &operator);
    let is_self = operator.email == visit.operator.email;
    let path = operator_path(&visit, &operator.email);
    page(StatusCode::OK, &OperatorPage { visit, operator, path, roles, is_self })
}

/// A change of an operator, by the last segment of its path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Grant,
    Revoke,
    Disable,
    Enable,
    Link,
    Unlink,
}

impl Step {
    fn parse(segment: &str) -> Result<Step, Refusal> {
        Ok(match segment {
            "grant" => Step::Grant,
            "revoke" => Step::Revoke,
            "disable" => Step::Disable,
            "enable" => Step::Enable,
            "link" => Step::Link,
            "unlink" => Step::Unlink,
            _ => return Err(Refusal::NotFound("There is no page at this address.")),
        })
    }

    fn is_dangerous(self) -> bool {
        matches!(self, Step::Revoke | Step::Disable | Step::Unlink)
    }
}

/// Fields of a form about a role.
struct Fields {
    /// None if the operator chooses the app in the form.
    app: Option<Option<AppId>>,
    role: Option<Role>,
    /// Role in this app when the page was shown.
    seen: Option<Role>,
}

#[derive(Template)]
#[template(path = "operator_change.html")]
struct ChangePage {
    visit: Visit,
    email: String,
    path: String,
    step: Step,
    fields: Fields,
    /// Apps in which the operator has no role by hand: value and name.
    free: Vec<(String, String)>,
    asks_password: bool,
    problem: Option<String>,
}

impl ChangePage {
    fn title(&self) -> String {
        let email = &self.email;
        let place = self.fields.app.map(|app| scope(&self.visit, app)).unwrap_or_default();
        match self.step {
            Step::Grant if self.fields.app.is_none() => format!("Give {email} a role"),
            Step::Grant => format!("Change the role of {email} in {place}"),
            Step::Revoke => format!("Remove the role of {email} in {place}?"),
            Step::Disable => format!("Disable {email}?"),
            Step::Enable => format!("Enable {email} again?"),
            Step::Link => format!("A new link for {email}?"),
            Step::Unlink => format!("Unlink {email} from the OpenID provider?"),
        }
    }

    fn effect(&self) -> &'static str {
        match self.step {
            Step::Grant => "The sessions of the operator end, so that the role holds at once.",
            Step::Revoke => "The sessions of the operator end. Other roles stay.",
            Step::Disable => "All sessions and links of the operator end. The roles stay.",
            Step::Enable => "The operator signs in as before, with the same roles.",
            Step::Unlink => {
                "The sessions of the operator and the roles by group end. The next identity with this email address is linked at its sign-in; roles given by hand stay."
            }
            Step::Link => {
                "The link signs the operator in, once within an hour, and replaces earlier links. A password that exists works until a new one is chosen."
            }
        }
    }

    fn button(&self) -> &'static str {
        match self.step {
            Step::Grant => "Save the role",
            Step::Revoke => "Remove the role",
            Step::Disable => "Disable",
            Step::Enable => "Enable",
            Step::Link => "Show the link",
            Step::Unlink => "Unlink",
        }
    }

    fn is_place(&self, value: &str) -> bool {
        self.fields.app.is_some_and(|app| scope_value(app) == value)
    }

    fn place_value(&self) -> Option<String> {
        self.fields.app.map(scope_value)
    }
}

fn change_page(
    visit: Visit,
    (operator, step): (&Operator, Step),
    fields: Fields,
    (asks_password, problem): (bool, Option<String>),
) -> ChangePage {
    let apps = visit.apps.iter().map(|app| Some(app.id));
    let has_role = |app: &Option<AppId>| operator.grants.iter().any(|(known, _)| known == app);
    let free = std::iter::once(None).chain(apps).filter(|app| !has_role(app));
    let free = free.map(|app| (scope_value(app), scope(&visit, app))).collect();
    let (email, path) = (operator.email.clone(), operator_path(&visit, &operator.email));
    ChangePage { visit, email, path, step, fields, free, asks_password, problem }
}

pub(crate) async fn ask(
    console: &Console,
    visit: Visit,
    request: &HttpRequest,
    (email, step): (&str, &str),
    query: &Pairs,
) -> Answer {
    let step = Step::parse(step)?;
    let operator = operators::find(&console.operations, &visit.operator.caller, email).await?;
    let app = match query.text("scope") {
        Some(value) => Some(read_scope(&visit, value).ok_or(NO_APP)?),
        None if step == Step::Revoke => return Err(NO_APP),
        None => None,
    };
    let of_app = |app| operator.grants.iter().find(|(known, _)| *known == app).map(|(_, role)| *role);
    let seen = app.and_then(of_app);
    let asks_password = asks_password(console, &visit, request).await?;
    let fields = Fields { app, role: seen, seen };
    let shown = change_page(visit, (&operator, step), fields, (asks_password, None));
    page(StatusCode::OK, &shown)
}

const NO_APP: Refusal = Refusal::NotFound("The address names no app that exists.");

pub(crate) async fn change(change: Change<'_>, email: &str, step: &str) -> Answer {
    let step = Step::parse(step)?;
    let caller = &change.visit.operator.caller;
    caller.may(Permission::ManageOperators, None)?;
    let role = |name: &str| change.form.text(name).and_then(|role| role.parse().ok());
    let app = change.form.text("scope").and_then(|value| read_scope(&change.visit, value));
    let fields = Fields { app, role: role("role"), seen: role("seen") };
    let is_whole = match step {
        Step::Grant => fields.app.is_some() && fields.role.is_some(),
        Step::Revoke => fields.app.is_some(),
        _ => true,
    };
    let refused = if is_whole {
        change.confirm_operator().await?.map(|problem| (status(&problem), problem.to_string()))
    } else {
        Some((StatusCode::BAD_REQUEST, "Choose a role, and an app that exists.".to_owned()))
    };
    if let Some((status, problem)) = refused {
        let operator = operators::find(&change.console.operations, caller, email).await?;
        let asked = (change.asks_password().await?, Some(problem));
        let shown = change_page(change.visit, (&operator, step), fields, asked);
        return page(status, &shown);
    }
    apply(change, email, step, &fields).await
}

async fn apply(change: Change<'_>, email: &str, step: Step, fields: &Fields) -> Answer {
    let (operations, caller) = (&change.console.operations, &change.visit.operator.caller);
    let seen = SeenRole::Exactly(fields.seen);
    let done = match (step, fields.app, fields.role) {
        (Step::Grant, Some(app), Some(role)) => {
            roles::grant(operations, caller, email, (app, role), seen).await?;
            "granted"
        }
        (Step::Revoke, Some(app), _) => {
            roles::revoke(operations, caller, email, app, seen).await?;
            "revoked"
        }
        (Step::Disable, ..) => {
            operators::disable(operations, caller, email, true).await?;
            "disabled"
        }
        (Step::Enable, ..) => {
            operators::disable(operations, caller, email, false).await?;
            "enabled"
        }
        (Step::Unlink, ..) => {
            operators::unlink(operations, caller, email).await?;
            "unlinked"
        }
        (Step::Link, ..) => {
            let code = operators::link(operations, caller, email, false).await?;
            return show_link(change.console, change.visit, email, &code);
        }
        _ => return Err(NO_APP),
    };
    Ok(see_other(format!("{}?done={done}", operator_path(&change.visit, email))))
}
