//! The way from an empty installation to a first message: an app, a provider, a template, a send. Each step is read from what exists, so
//! it can be left and continued at any time.

use actix_web::http::StatusCode;
use askama::Template;
use domain::SendId;
use operations::apps::creation::{self, CreatedApp, PublicAccess};
use operations::explain::{self, Explained};
use operations::sends::try_out;
use operations::{Conflict, OperationError, Permission, providers, templates};
use secrecy::ExposeSecret as _;
use store::control::provider::ProviderSummary;

use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::route::{encoded, segment};
use crate::text;

/// Identifier of the recipient of the first message, unless the operator types another.
const ME: &str = "me";
const ACCESS: [(&str, PublicAccess, &str); 3] = [
    ("closed", PublicAccess::Closed, "Your backend signs a token for each user"),
    ("open", PublicAccess::Open, "Callers with the public key may act as any user whose id they know"),
    (
        "development",
        PublicAccess::Development,
        "Like open, and users may set addresses; never for real users",
    ),
];
const COMMAND_OF_TEMPLATE: &str = r#"tidings template put APP - <<'END'
{
  "identifier": "hello",
  "channels": {
    "email": {"subject": "Hello {{ recipient.identifier }}", "text": "{{ text }}"},
    "sms": {"text": "{{ text }}"}
  }
}
END"#;

#[derive(Template)]
#[template(path = "setup_app.html")]
struct AppPage {
    visit: Visit,
    name: String,
    access: String,
    problem: Option<String>,
}

/// A new app, whose secret is shown once.
#[derive(Template)]
#[template(path = "setup_created.html")]
struct CreatedPage {
    visit: Visit,
    name: String,
    created: CreatedApp,
    /// Path of the setup of the app.
    next: String,
    curl: String,
}

struct Sent {
    /// Outcome of the message; None until it is planned.
    verdict: Option<String>,
    path: String,
}

#[derive(Template)]
#[template(path = "setup.html")]
struct SetupPage {
    visit: Visit,
    providers: Part<Vec<ProviderSummary>>,
    templates: Part<usize>,
    recipient: String,
    email: String,
    problem: Option<String>,
    sent: Option<Part<Sent>>,
    send_curl: Option<String>,
}

pub(crate) fn ask_app(_: &Console, visit: Visit) -> Answer {
    visit.operator.caller.may(Permission::ManageApps, None)?;
    let page_ = AppPage { visit, name: String::new(), access: "closed".to_owned(), problem: None };
    page(StatusCode::OK, &page_)
}

/// Creates an app, and shows its secret.
pub(crate) async fn create_app(console: &Console, visit: Visit, form: &Pairs) -> Answer {
    let caller = &visit.operator.caller;
    caller.may(Permission::ManageApps, None)?;
    let name = form.text("name").unwrap_or_default().to_owned();
    let chosen = form.text("access").unwrap_or_default().to_owned();
    let access = ACCESS.iter().find(|(known, ..)| *known == chosen).map(|(_, access, _)| *access);
    let result = match access {
        Some(access) => creation::create(&console.operations, caller, &name, access).await,
        None => return Err(Refusal::Invalid("The form names no access that this release knows.".to_owned())),
    };
    let (status, problem) = match result {
        Ok(created) => {
            let next = format!("{}/apps/{}/setup", visit.base, segment(&name));
            let curl = visit.api.send(&created.api_key, &try_out::body(ME, "you@example.com"));
            return page(StatusCode::CREATED, &CreatedPage { visit, name, created, next, curl });
        }
        Err(OperationError::Conflict(Conflict::NameTaken)) => {
            (StatusCode::CONFLICT, format!("An app named “{name}” exists already. Choose another name."))
        }
        Err(OperationError::Invalid(problems)) => {
            (StatusCode::BAD_REQUEST, text::sentence(&domain::problem::joined(&problems)))
        }
        Err(error) => return Err(error.into()),
    };
    page(status, &AppPage { visit, name, access: chosen, problem: Some(problem) })
}

pub(crate) async fn show(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let recipient = query.text("to").unwrap_or(ME).to_owned();
    let sent = match query.text("sent").and_then(|id| id.parse().ok()) {
        Some(id) => Some(sent(console, &visit, SendId(id), &recipient).await?),
        None => None,
    };
    let email = visit.operator.email.clone();
    shown(console, visit, StatusCode::OK, (recipient, email), None, sent).await
}

async fn shown(
    console: &Console,
    visit: Visit,
    status: StatusCode,
    (recipient, email): (String, String),
    problem: Option<String>,
    sent: Option<Part<Sent>>,
) -> Answer {
    let (app, caller, operations) = (visit.app()?, &visit.operator.caller, &console.operations);
    let providers = part(providers::list(operations, caller, app.id).await)?;
    let templates = part(templates::list(operations, caller, app.id).await)?.map(|listed| listed.len());
    let send_curl = Some(visit.api.send(&app.api_key, &try_out::body(&recipient, &email)));
    page(status, &SetupPage { providers, templates, recipient, email, problem, sent, send_curl, visit })
}

async fn sent(console: &Console, visit: &Visit, id: SendId, recipient: &str) -> Result<Part<Sent>, Refusal> {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let found = part(explain::request(&console.operations, caller, app, recipient, id, false).await)?;
    let path = visit.path(&format!("/sends/{id}/explain?person={}", encoded(recipient)));
    Ok(found.map(|found| Sent {
        verdict: match found {
            Explained::Found(found) => Some(found.verdict),
            Explained::UnknownUser { .. } | Explained::Erased => None,
        },
        path,
    }))
}

/// Sends the first message.
pub(crate) async fn send(change: Change<'_>) -> Answer {
    let Change { console, visit, form, .. } = change;
    let caller = &visit.operator.caller;
    let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
    let (recipient, email) = (text("recipient"), text("email"));
    match console.sends.try_out(caller, visit.app()?, &recipient, &email).await {
        Ok(id) => Ok(see_other(visit.path(&format!("/setup?sent={id}&to={}", encoded(&recipient))))),
        Err(OperationError::Invalid(problems)) => {
            let problem = Some(text::sentence(&domain::problem::joined(&problems)));
            shown(console, visit, StatusCode::BAD_REQUEST, (recipient, email), problem, None).await
        }
        Err(error) => Err(error.into()),
    }
}

impl SetupPage {
    fn enabled(&self) -> usize {
        self.providers
            .as_ref()
            .map_or(0, |providers| providers.iter().filter(|provider| provider.enabled).count())
    }

    /// Returns true if it is known what became of the message.
    fn is_sent(&self) -> bool {
        matches!(&self.sent, Some(Ok(Sent { verdict: Some(_), .. })))
    }

    /// Name of the app for a command in a shell.
    fn quoted(&self) -> String {
        quoted(self.visit.app_name())
    }

    fn template_command(&self) -> String {
        COMMAND_OF_TEMPLATE.replacen("APP", &self.quoted(), 1)
    }
}

impl AppPage {
    fn command(&self) -> String {
        format!(
            "tidings app create {}",
            if self.name.is_empty() { "shop".to_owned() } else { quoted(&self.name) }
        )
    }
}

impl CreatedPage {
    fn secret(&self) -> &str {
        self.created.api_secret.expose_secret()
    }
}

/// Quotes a name for a shell if it needs quotes.
fn quoted(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_the_shell() {
        assert_eq!(quoted("shop-1"), "shop-1");
        assert_eq!(quoted("a/b?c#d"), "'a/b?c#d'");
        assert_eq!(quoted("it's $(id)"), r"'it'\''s $(id)'");
    }
}
