//! Webhook endpoints of an app: the list, one endpoint with the calls that Tidings gave up on, and their changes.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::webhook::WebhookEvent;
use operations::webhooks::{self, EndpointState, SeenEndpoint, SetEndpoint};
use operations::{Conflict, OperationError, Permission};
use secrecy::ExposeSecret as _;
use store::webhooks::{Endpoint, FailedMessage};
use uuid::Uuid;

use super::confirm::{Choice, Question, SecretPage, ask as ask_question};
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::text::{self, Plain};

/// Calls that the page of an endpoint lists.
const LISTED: u32 = 100;
/// From this number of messages on, the store does not count.
const MOST_COUNTED: u64 = 100_000;
const GRACE: Choice = Choice {
    name: "grace",
    label: "Calls are also signed with the previous secret for",
    options: &[
        ("24h", "a day"),
        ("10m", "10 minutes"),
        ("1h", "an hour"),
        ("7d", "7 days"),
        ("90d", "90 days"),
        ("0s", "no time: it ends now"),
    ],
};
const SIGNS: &str = "It signs the calls to the endpoint, which verifies them as the page about webhooks in the guides describes.";

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    visit: Visit,
    endpoints: Part<Vec<Endpoint>>,
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    visit: Visit,
    endpoint: Endpoint,
    path: String,
    failed: Part<Vec<FailedMessage>>,
}

#[derive(Template)]
#[template(path = "webhook_form.html")]
struct FormPage {
    visit: Visit,
    /// The stored endpoint; None for a new one.
    edited: Option<Endpoint>,
    url: String,
    events: Vec<WebhookEvent>,
    problem: Option<String>,
}

fn path(visit: &Visit, id: impl Plain<i64>, below: &str) -> String {
    visit.path(&format!("/webhook/{}{below}", id.plain()))
}

/// Class in the stylesheet, sign and words of the state of an endpoint.
fn state(endpoint: &Endpoint) -> (&'static str, &'static str, &'static str) {
    match (&endpoint.disabled, endpoint.failing_since) {
        (Some(_), _) => ("off", "–", "disabled"),
        (None, Some(_)) => ("bad", "▲", "calls fail"),
        (None, None) => ("good", "✓", "enabled"),
    }
}

/// Meaning of an event.
fn meaning(event: impl Plain<WebhookEvent>) -> &'static str {
    match event.plain() {
        WebhookEvent::DeliverySent => "a provider accepted the message",
        WebhookEvent::DeliveryDelivered => "the provider reports that it arrived",
        WebhookEvent::DeliveryFailed => "it ended without being sent, or is parked",
        WebhookEvent::DeliverySuppressed => "a target is dead and is no longer used",
        WebhookEvent::NotificationRead => "a person read an item of the inbox",
    }
}

fn counted(number: impl Plain<u64>) -> String {
    let number = number.plain();
    text::number(usize::try_from(number).unwrap_or(usize::MAX), number >= MOST_COUNTED)
}

pub(crate) async fn list(console: &Console, visit: Visit) -> Answer {
    let app = visit.app()?.id;
    let endpoints = part(webhooks::list(&console.operations, &visit.operator.caller, app).await)?;
    page(StatusCode::OK, &WebhooksPage { visit, endpoints })
}

async fn found(console: &Console, visit: &Visit, id: &str) -> Result<Endpoint, Refusal> {
    Ok(webhooks::find(&console.operations, &visit.operator.caller, visit.app()?.id, id).await?)
}

pub(crate) async fn show(console: &Console, visit: Visit, id: &str) -> Answer {
    let endpoint = found(console, &visit, id).await?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let failed = webhooks::failed(&console.operations, caller, app, Some(endpoint.id), LISTED).await;
    let path = path(&visit, endpoint.id, "");
    page(StatusCode::OK, &WebhookPage { failed: part(failed)?, visit, endpoint, path })
}

pub(crate) fn new(visit: Visit) -> Answer {
    visit.operator.caller.may(Permission::ManageWebhooks, visit.app()?.id)?;
    let (url, events) = (String::new(), WebhookEvent::ALL.to_vec());
    page(StatusCode::OK, &FormPage { visit, edited: None, url, events, problem: None })
}

pub(crate) async fn edit(console: &Console, visit: Visit, id: &str) -> Answer {
    visit.operator.caller.may(Permission::ManageWebhooks, visit.app()?.id)?;
    let endpoint = found(console, &visit, id).await?;
    let (url, events) = (endpoint.url.clone(), endpoint.events.clone());
    page(StatusCode::OK, &FormPage { visit, edited: Some(endpoint), url, events, problem: None })
}

/// Writes the state of an endpoint for the form about it.
fn written(endpoint: &Endpoint) -> String {
    let mut names: Vec<&str> = endpoint.events.iter().map(|event| event.as_str()).collect();
    names.push(if endpoint.disabled.is_some() { "disabled" } else { "enabled" });
    names.join(" ")
}

fn read(seen: &str) -> Option<EndpointState> {
    let (events, enabled) = match seen.strip_suffix(" disabled") {
        Some(events) => (events, false),
        None => (seen.strip_suffix(" enabled")?, true),
    };
    let events = events.split(' ').map(|name| name.parse().ok()).collect::<Option<_>>()?;
    Some(EndpointState { events, enabled })
}

fn chosen(change: &Change<'_>) -> Vec<WebhookEvent> {
    let is_chosen = |event: &WebhookEvent| change.form.text(&format!("event.{event}")).is_some();
    WebhookEvent::ALL.iter().copied().filter(is_chosen).collect()
}

pub(crate) async fn create(change: Change<'_>) -> Answer {
    change.visit.operator.caller.may(Permission::ManageWebhooks, change.visit.app()?.id)?;
    let url = change.form.text("url").unwrap_or_default().to_owned();
    save(change, None, url, SeenEndpoint::Missing).await
}

pub(crate) async fn update(change: Change<'_>, id: &str) -> Answer {
    change.visit.operator.caller.may(Permission::ManageWebhooks, change.visit.app()?.id)?;
    let endpoint = found(change.console, &change.visit, id).await?;
    let seen = read(change.seen()?);
    let seen = seen.ok_or_else(|| Refusal::Invalid("The form names no state of the endpoint.".to_owned()))?;
    let url = endpoint.url.clone();
    save(change, Some(endpoint), url, SeenEndpoint::State(seen)).await
}

async fn save(change: Change<'_>, edited: Option<Endpoint>, url: String, seen: SeenEndpoint) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let events = chosen(&change);
    let result = if events.is_empty() {
        Err((StatusCode::BAD_REQUEST, "Choose at least one event.".to_owned()))
    } else {
        match webhooks::set_seen(&change.console.operations, caller, app, &url, &events, seen).await {
            Ok(set) => Ok(set),
            Err(OperationError::Invalid(problems)) => {
                Err((StatusCode::BAD_REQUEST, text::sentence(&domain::problem::joined(&problems))))
            }
            Err(OperationError::Conflict(Conflict::NameTaken)) => {
                Err((StatusCode::CONFLICT, "The app has an endpoint with this URL already.".to_owned()))
            }
            Err(error) => return Err(error.into()),
        }
    };
    match result {
        Ok(SetEndpoint { id, secret: Some(secret), .. }) => {
            let next = (path(&change.visit, id, ""), "The endpoint");
            let (title, facts) = ("The endpoint exists".to_owned(), vec![("URL", url)]);
            let (purpose, secret) = (SIGNS.to_owned(), secret.expose_secret().to_owned());
            let visit = change.visit;
            page(
                StatusCode::CREATED,
                &SecretPage { visit, title, purpose, facts, name: "Secret", secret, next },
            )
        }
        Ok(SetEndpoint { id, .. }) => Ok(see_other(path(&change.visit, id, "?done=webhook-saved"))),
        Err((status, problem)) => {
            page(status, &FormPage { visit: change.visit, edited, url, events, problem: Some(problem) })
        }
    }
}

fn question(visit: &Visit, endpoint: &Endpoint, step: &str) -> Result<Question, Refusal> {
    visit.operator.caller.may(Permission::ManageWebhooks, visit.app()?.id)?;
    let back = (path(visit, endpoint.id, ""), "The endpoint");
    let action = path(visit, endpoint.id, &format!("/{step}"));
    Ok(match step {
        "secret" => Question {
            title: "Rotate the secret of the endpoint?".to_owned(),
            effect: format!("{} is called with signatures of the new secret at once.", endpoint.url),
            button: "Rotate and show the secret",
            is_danger: false,
            choice: Some(&GRACE),
            seen: endpoint.newest_secret.to_string(),
            is_step_up: true,
            action,
            back,
        },
        "remove" => {
            let noun = if endpoint.pending == 1 { "message is" } else { "messages are" };
            Question {
                title: "Remove the endpoint?".to_owned(),
                effect: format!(
                    "{} gets no more events. {} pending {noun} dropped, and so are its secrets and failed messages.",
                    endpoint.url,
                    counted(endpoint.pending)
                ),
                button: "Remove",
                is_danger: true,
                choice: None,
                seen: endpoint.id.to_string(),
                is_step_up: false,
                action,
                back,
            }
        }
        _ => return Err(Refusal::NotFound("There is no page at this address.")),
    })
}

pub(crate) async fn ask(
    console: &Console,
    visit: Visit,
    request: &HttpRequest,
    (id, step): (&str, &str),
) -> Answer {
    visit.operator.caller.may(Permission::ManageWebhooks, visit.app()?.id)?;
    let question = question(&visit, &found(console, &visit, id).await?, step)?;
    ask_question(console, visit, request, &question).await
}

pub(crate) async fn change(change: Change<'_>, (id, step): (&str, &str)) -> Answer {
    let app = change.visit.app()?.id;
    change.visit.operator.caller.may(Permission::ManageWebhooks, app)?;
    let endpoint = found(change.console, &change.visit, id).await?;
    let question = question(&change.visit, &endpoint, step)?;
    let change = match change.confirmed(&question).await? {
        Ok(change) => change,
        Err(answer) => return answer,
    };
    let (operations, caller) = (&change.console.operations, &change.visit.operator.caller);
    if step == "remove" {
        webhooks::remove(operations, caller, app, endpoint.id).await?;
        return Ok(see_other(change.visit.path("/webhooks?done=webhook-removed")));
    }
    let seen = (endpoint.id, change.seen()?.parse().unwrap_or_default());
    let secret = webhooks::rotate_seen_secret(operations, caller, app, seen, change.grace(&GRACE)?).await?;
    let next = (path(&change.visit, endpoint.id, ""), "The endpoint");
    let (title, facts) = ("The secret is rotated".to_owned(), vec![("URL", endpoint.url)]);
    let (purpose, secret) = (SIGNS.to_owned(), secret.expose_secret().to_owned());
    let visit = change.visit;
    page(StatusCode::OK, &SecretPage { visit, title, purpose, facts, name: "Secret", secret, next })
}

/// Sends a message that was given up, or all of an endpoint.
pub(crate) async fn redeliver(change: Change<'_>, id: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::ManageWebhooks, app)?;
    let endpoint = found(change.console, &change.visit, id).await?;
    let message = change.form.text("message").map(str::parse::<Uuid>);
    let ids = match (message, change.form.text("all")) {
        (Some(Ok(id)), None) => Some([id]),
        (None, Some(_)) => None,
        _ => return Err(Refusal::Invalid("The form names no message.".to_owned())),
    };
    let ids = ids.as_ref().map(|ids| ids.as_slice());
    webhooks::redeliver(&change.console.operations, caller, app, Some(&endpoint), ids).await?;
    Ok(see_other(path(&change.visit, endpoint.id, "?done=redelivered")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_names_the_state_that_it_showed() {
        let state = EndpointState {
            events: vec![WebhookEvent::DeliverySent, WebhookEvent::NotificationRead],
            enabled: false,
        };
        assert_eq!(read("delivery.sent notification.read disabled"), Some(state));
        for refused in ["", "enabled", "delivery.sent", "delivery.lost enabled"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
