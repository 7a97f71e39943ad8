//! Enabling, disabling and removing a provider.

use actix_web::http::StatusCode;
use askama::Template;
use operations::providers::{self, LONGEST_REASON};
use operations::{OperationError, Permission};
use store::control::provider::ProviderSummary;

use super::providers::path;
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::text;

#[derive(Template)]
#[template(path = "provider_switch.html")]
struct SwitchPage {
    visit: Visit,
    provider: ProviderSummary,
    path: String,
    /// Number of other enabled providers of the channel.
    others: usize,
    typed: String,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "provider_remove.html")]
struct RemovePage {
    visit: Visit,
    provider: ProviderSummary,
    path: String,
    problem: Option<String>,
}

/// Returns the provider, and the number of other enabled providers of its channel.
async fn found(
    console: &Console,
    visit: &Visit,
    identifier: &str,
) -> Result<(ProviderSummary, usize), Refusal> {
    let (app, caller, operations) = (visit.app()?.id, &visit.operator.caller, &console.operations);
    caller.may(Permission::ManageProviders, app)?;
    let provider = providers::find(operations, caller, app, identifier).await?.provider;
    let listed = providers::list(operations, caller, app).await?;
    let others = listed.iter().filter(|other| {
        other.enabled && other.channel == provider.channel && other.identifier != provider.identifier
    });
    let others = others.count();
    Ok((provider, others))
}

/// Returns the version of the provider that the form was made for.
fn version(change: &Change<'_>) -> Result<i64, Refusal> {
    let version = change.form.text("version").and_then(|version| version.parse().ok());
    version.ok_or_else(|| Refusal::Invalid("The form names no version of the provider.".to_owned()))
}

pub(crate) async fn ask_switch(console: &Console, visit: Visit, identifier: &str) -> Answer {
    let (provider, others) = found(console, &visit, identifier).await?;
    let path = path(&visit, identifier, "");
    let typed = String::new();
    page(StatusCode::OK, &SwitchPage { visit, provider, path, others, typed, problem: None })
}

pub(crate) async fn switch(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::ManageProviders, app)?;
    let version = version(&change)?;
    let enabled = match change.form.text("to") {
        Some("enabled") => true,
        Some("disabled") => false,
        _ => return Err(Refusal::Invalid("The form does not say what to do with the provider.".to_owned())),
    };
    let reason = change.form.text("reason").unwrap_or_default();
    let operations = &change.console.operations;
    let done = if enabled { "provider-enabled" } else { "provider-disabled" };
    match providers::switch(operations, caller, app, (identifier, version), enabled, reason).await {
        Ok(_) => Ok(see_other(path(&change.visit, identifier, &format!("?done={done}")))),
        Err(OperationError::Invalid(_)) => {
            let (provider, others) = found(change.console, &change.visit, identifier).await?;
            let problem = Some(format!("Give a reason of 1 to {LONGEST_REASON} characters."));
            let (path, typed) = (path(&change.visit, identifier, ""), reason.to_owned());
            let template = SwitchPage { visit: change.visit, provider, path, others, typed, problem };
            page(StatusCode::BAD_REQUEST, &template)
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn ask_remove(console: &Console, visit: Visit, identifier: &str) -> Answer {
    let (provider, _) = found(console, &visit, identifier).await?;
    let path = path(&visit, identifier, "");
    page(StatusCode::OK, &RemovePage { visit, provider, path, problem: None })
}

pub(crate) async fn remove(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::ManageProviders, app)?;
    let version = version(&change)?;
    if change.form.text("typed") != Some(identifier) {
        let (provider, _) = found(change.console, &change.visit, identifier).await?;
        let path = path(&change.visit, identifier, "");
        let problem = Some("This is not the identifier of the provider.".to_owned());
        return page(StatusCode::BAD_REQUEST, &RemovePage { visit: change.visit, provider, path, problem });
    }
    providers::remove_version(&change.console.operations, caller, app, identifier, version).await?;
    Ok(see_other(change.visit.path("/providers?done=provider-removed")))
}
