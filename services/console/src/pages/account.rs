//! The operator's own account: sessions and password.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use operations::operators::PASSWORD_LENGTH;
use operations::operators::account::OpenSession;
use secrecy::SecretString;

use super::operators::scope;
use super::shell::Visit;
use super::sign_in::described;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::{Change, asks_password};
use crate::client::client;
use crate::console::Console;
use crate::text;

/// Password fields of the page.
struct PasswordForm {
    /// True if the form asks for the old password.
    asks_old: bool,
    least: usize,
}

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    visit: Visit,
    /// Each with the app or apps in which it holds.
    roles: Vec<(String, String)>,
    /// None if a proxy signed the operator in.
    sessions: Option<Part<Vec<OpenSession>>>,
    /// None if the operator signs in without a password.
    password: Option<PasswordForm>,
    problem: Option<String>,
}

impl AccountPage {
    /// Writes the name of a session for a form.
    fn name(session: &OpenSession) -> String {
        session.name.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn method(session: &OpenSession) -> &'static str {
        match session.method.as_deref() {
            Some("password") => "by password",
            Some("link") => "by link",
            Some("oidc") => "by your identity provider",
            _ => "",
        }
    }

    fn has_others(sessions: &[OpenSession]) -> bool {
        sessions.len() > 1
    }
}

fn parse_name(text: &str) -> Option<Vec<u8>> {
    let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_name.then(|| u64::from_str_radix(text, 16).ok()).flatten()?;
    Some(number.to_be_bytes().to_vec())
}

pub(crate) async fn show(console: &Console, visit: Visit, request: &HttpRequest) -> Answer {
    render(console, visit, request, (StatusCode::OK, None)).await
}

async fn render(
    console: &Console,
    visit: Visit,
    request: &HttpRequest,
    (status, problem): (StatusCode, Option<String>),
) -> Answer {
    let token = console.cookies(request).token().filter(|_| !visit.by_proxy);
    let sessions = match &token {
        Some(token) => Some(part(console.sign_ins.sessions(token).await)?),
        None => None,
    };
    let has_password = !visit.by_proxy && !visit.operator.by_provider && console.sign_ins.uses_passwords();
    let password = if has_password {
        let asks_old = asks_password(console, &visit, request).await?;
        Some(PasswordForm { asks_old, least: PASSWORD_LENGTH.0 })
    } else {
        None
    };
    let grants = visit.operator.grants.iter();
    let roles = grants.map(|grant| (grant.role.to_string(), scope(&visit, grant.app))).collect();
    page(status, &AccountPage { visit, roles, sessions, password, problem })
}

/// Returns the token of the session that sent a form.
fn own_session(change: &Change<'_>) -> Result<String, Refusal> {
    const BY_PROXY: &str =
        "Your proxy signs you in, so the console has no sessions and no password of yours.";
    let token = change.console.cookies(change.request).token().filter(|_| !change.visit.by_proxy);
    token.ok_or_else(|| Refusal::Stale(BY_PROXY.to_owned()))
}

pub(crate) async fn end_sessions(change: Change<'_>) -> Answer {
    let (token, sign_ins) = (own_session(&change)?, &change.console.sign_ins);
    let done = match change.form.text("session") {
        None => {
            sign_ins.end_other_sessions(&token).await?;
            "ended-all"
        }
        Some(name) => {
            let name = parse_name(name).ok_or(Refusal::NotFound("The form names no session."))?;
            sign_ins.end_session(&token, &name).await?;
            "ended"
        }
    };
    Ok(see_other(format!("{}/account?done={done}", change.visit.base)))
}

pub(crate) async fn change_password(change: Change<'_>) -> Answer {
    let token = own_session(&change)?;
    let field = |name: &str| SecretString::from(change.form.raw(name).unwrap_or_default());
    let passwords = (field("password"), field("new"));
    let (console, operator) = (change.console, &change.visit.operator);
    let client = client(console, change.request);
    match console.sign_ins.change_password(operator, &token, passwords, &client).await {
        Ok(()) => Ok(see_other(format!("{}/account?done=password", change.visit.base))),
        Err(error) => {
            let (status, problem) = described(error)?;
            render(console, change.visit, change.request, (status, Some(problem))).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_session_survives_its_form() {
        for name in ["0000000000000000", "00ff12ab34cd56ef"] {
            let bytes = parse_name(name).unwrap();
            assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), name);
        }
        for refused in ["", "00", "00ff12ab34cd56eg", "00ff12ab34cd56ef00", "+0ff12ab34cd56ef"] {
            assert_eq!(parse_name(refused), None, "{refused}");
        }
    }
}
