//! Erasing a person.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use operations::operators::SignInError;
use operations::people::PersonDetails;
use operations::{Permission, people, users};

use super::shell::Visit;
use crate::answer::{Answer, page, see_other};
use crate::changes::{Change, asks_password};
use crate::console::Console;

#[derive(Template)]
#[template(path = "erase.html")]
struct ErasePage {
    visit: Visit,
    details: PersonDetails,
    asks_password: bool,
    problem: Option<String>,
}

pub(crate) async fn ask(console: &Console, visit: Visit, request: &HttpRequest, identifier: &str) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::EraseUsers, app)?;
    let details = people::find(&console.operations, caller, app, identifier).await?;
    let asks_password = asks_password(console, &visit, request).await?;
    page(StatusCode::OK, &ErasePage { visit, details, asks_password, problem: None })
}

pub(crate) async fn erase(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::EraseUsers, app)?;
    let console = change.console;
    let details = people::find(&console.operations, caller, app, identifier).await?;
    let typed = change.form.raw("typed").unwrap_or_default();
    let refused = if typed != identifier && typed.trim() != identifier {
        Some((StatusCode::BAD_REQUEST, "This is not the identifier of the person.".to_owned()))
    } else {
        change.confirm_operator().await?.map(|problem| (status(&problem), problem.to_string()))
    };
    if let Some((status, problem)) = refused {
        let asks_password = change.asks_password().await?;
        let problem = Some(problem);
        return page(status, &ErasePage { visit: change.visit, details, asks_password, problem });
    }
    users::erase(&console.operations, caller, app, identifier, console.partitions).await?;
    Ok(see_other(change.visit.path("/people?done=erased")))
}

/// Returns the status of an answer to a step-up that failed.
pub(crate) fn status(problem: &SignInError) -> StatusCode {
    match problem {
        SignInError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    }
}
