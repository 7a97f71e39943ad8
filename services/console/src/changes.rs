//! Forms that change something. Those of an app come through [`change`], with the operator and the app of the page; those of the
//! installation through [`change_installation`].

use actix_web::HttpRequest;
use operations::operators::SignInError;
use secrecy::SecretString;

use crate::answer::{Answer, Refusal};
use crate::client::client;
use crate::console::Console;
use crate::pages::shell::Visit;
use crate::pages::templates::{editor, publish};
use crate::pages::{
    account, cancel, categories, credentials, erase, lift, operator, operators, provider_change,
    provider_form, providers, redrive, release, reveal, settings, setup, tokens, topics, webhooks,
};
use crate::query::Pairs;

/// A form that an operator sent from a page.
pub(crate) struct Change<'a> {
    pub(crate) console: &'a Console,
    pub(crate) visit: Visit,
    pub(crate) query: &'a Pairs,
    pub(crate) form: Pairs,
    pub(crate) request: &'a HttpRequest,
}

/// Parses a form, and calls the use case of its path. The site of the form was checked before.
pub(crate) async fn change(
    console: &Console,
    request: &HttpRequest,
    (visit, below): (Visit, &[&str]),
    query: &Pairs,
    body: &[u8],
) -> Answer {
    let form = Pairs::parse(&String::from_utf8_lossy(body));
    let change = Change { console, visit, query, form, request };
    match below {
        ["sends", id, "cancel"] => cancel::cancel(change, id).await,
        ["suppressions", "lift"] => lift::lift(change).await,
        ["people", identifier, "erase"] => erase::erase(change, identifier).await,
        ["people", identifier, "reveal"] => reveal::reveal(change, identifier).await,
        ["waiting", "release"] => release::release(change).await,
        ["setup"] => setup::send(change).await,
        ["providers", "new"] => provider_form::create(change).await,
        ["provider", id, "edit"] => provider_form::update(change, id).await,
        ["provider", id, "test"] => providers::test(change, id).await,
        ["provider", id, "switch"] => provider_change::switch(change, id).await,
        ["provider", id, "move"] => providers::reorder(change, id).await,
        ["provider", id, "remove"] => provider_change::remove(change, id).await,
        ["settings"] => settings::change(change).await,
        ["credentials", below @ ..] => credentials::change(change, below).await,
        ["webhooks" | "webhook" | "categories" | "category" | "topics" | "topic", ..] => {
            Box::pin(change_part(change, below)).await
        }
        ["parked", "redrive"] => redrive::start(change).await,
        ["parked", "runs", id] => redrive::change_run(change, id).await,
        ["templates", id, "edit"] => editor::render(change, id).await,
        ["templates", id, "frame"] => editor::frame(change, id).await,
        ["templates", id, "review"] => publish::review(change, id).await,
        ["templates", id, "publish"] => publish::publish(change, id).await,
        ["templates", id, "test"] => editor::test_send(change, id).await,
        ["templates", id, "versions", number, "restore"] => publish::restore(change, id, number).await,
        _ => Err(Refusal::NotFound("There is no form at this address.")),
    }
}

/// Calls the use case of a form about webhooks, categories or topics.
async fn change_part(change: Change<'_>, below: &[&str]) -> Answer {
    match below {
        ["webhooks", "new"] => webhooks::create(change).await,
        ["webhook", id, "edit"] => webhooks::update(change, id).await,
        ["webhook", id, "redeliver"] => webhooks::redeliver(change, id).await,
        ["webhook", id, step] => webhooks::change(change, (id, step)).await,
        ["categories", "new"] => categories::create(change).await,
        ["category", id] => categories::update(change, id).await,
        ["category", id, "delete"] => categories::delete(change, id).await,
        ["topics", "new"] => topics::create(change).await,
        ["topic", id] => topics::update(change, id).await,
        ["topic", id, "delete"] => topics::delete(change, id).await,
        _ => Err(Refusal::NotFound("There is no form at this address.")),
    }
}

/// Parses a form about operators, tokens or the own account, and calls the use case of its path.
pub(crate) async fn change_installation(
    console: &Console,
    request: &HttpRequest,
    (visit, path): (Visit, &[&str]),
    query: &Pairs,
    body: &[u8],
) -> Answer {
    let form = Pairs::parse(&String::from_utf8_lossy(body));
    let change = Change { console, visit, query, form, request };
    match path {
        ["operators", "new"] => operators::create(change).await,
        ["operators", email, step] => operator::change(change, email, step).await,
        ["tokens", "new"] => tokens::create(change).await,
        ["tokens", number, "revoke"] => tokens::revoke(change, number).await,
        ["account", "password"] => account::change_password(change).await,
        ["account", "sessions"] => account::end_sessions(change).await,
        _ => Err(Refusal::NotFound("There is no form at this address.")),
    }
}

impl Change<'_> {
    /// Verifies the operator's password in the form, and returns the problem if it is wrong. Operators who sign in through a proxy have no
    /// password, and are not asked for one.
    pub(crate) async fn confirm_operator(&self) -> Result<Option<SignInError>, Refusal> {
        if self.visit.by_proxy {
            return Ok(None);
        }
        let session = self.console.cookies(self.request).token().ok_or(Refusal::SignIn)?;
        let password = SecretString::from(self.form.raw("password").unwrap_or_default());
        let address = client(self.console, self.request).address;
        let email = &self.visit.operator.email;
        match self.console.sign_ins.confirm(&session, email, password, address).await {
            Ok(()) => Ok(None),
            Err(SignInError::Failed(error)) => Err(error.into()),
            Err(problem) => Ok(Some(problem)),
        }
    }

    /// Returns true if the form has to ask for the operator's password.
    pub(crate) async fn asks_password(&self) -> Result<bool, Refusal> {
        asks_password(self.console, &self.visit, self.request).await
    }
}

/// Returns true if a step-up of the operator asks for a password.
pub(crate) async fn asks_password(
    console: &Console,
    visit: &Visit,
    request: &HttpRequest,
) -> Result<bool, Refusal> {
    let session = console.cookies(request).token().filter(|_| !visit.by_proxy);
    Ok(match session {
        Some(session) => console.sign_ins.asks_password(&session).await?,
        None => false,
    })
}
