//! Why a person got a notification of a send or did not.

use actix_web::http::StatusCode;
use askama::Template;
use domain::explain::{EventKind, StoryEvent};
use domain::{Channel, SendId};
use operations::Permission;
use operations::explain::{self, Explained, Explanation};
use operations::sends::recent;
use store::sends::pairs::PairFilter;
use store::sends::story::SuppressedTarget;

use super::sends::send_id;
use super::shell::{PersonLink, Visit};
use crate::answer::{Answer, Part, Refusal, page, part};
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    visit: Visit,
    id: SendId,
    heading: String,
    /// Path of this page, with its query.
    own_path: String,
    /// Identifier that the operator typed.
    typed: String,
    person: Option<PersonLink>,
    /// None if the operator may not know the identifier.
    curl: Option<String>,
    /// None if the page was opened without a person.
    answer: Part<Option<Explained<Explanation>>>,
}

/// Explains a send for the person with an identifier (`person`), or for the recipient at a place of the send (`recipient`).
pub(crate) async fn explain(console: &Console, visit: Visit, id: &str, query: &Pairs) -> Answer {
    let id = send_id(id)?;
    let typed = query.text("person").unwrap_or_default().to_owned();
    let place = query.text("recipient").filter(|_| typed.is_empty());
    let (identifier, answer) = match place {
        None if typed.is_empty() => (None, Ok(None)),
        None => (Some(typed.clone()), request(console, &visit, id, &typed).await?),
        Some(place) => match recipient(console, &visit, id, place).await? {
            Some(identifier) => {
                let answer = request(console, &visit, id, &identifier).await?;
                (Some(identifier), answer)
            }
            None => (None, Ok(Some(Explained::Erased))),
        },
    };
    let heading = match &answer {
        Ok(Some(Explained::Found(found))) => heading(found),
        _ => "Explain a send".to_owned(),
    };
    let person = identifier.as_deref().map(|identifier| visit.person(identifier));
    let known = identifier.filter(|_| person.as_ref().is_some_and(|person| person.path.is_some()));
    let curl =
        known.and_then(|known| visit.curl(&format!("/v3/explain?user={}&request={id}", encoded(&known))));
    let own_path = match place {
        Some(place) => format!("{}/explain?recipient={}", visit.send_path(&id), encoded(place)),
        None => format!("{}/explain?person={}", visit.send_path(&id), encoded(&typed)),
    };
    page(StatusCode::OK, &ExplainPage { visit, id, heading, own_path, typed, person, curl, answer })
}

async fn request(
    console: &Console,
    visit: &Visit,
    id: SendId,
    identifier: &str,
) -> Result<Part<Option<Explained<Explanation>>>, Refusal> {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let found = explain::request(&console.operations, caller, app, identifier, id, true).await;
    Ok(part(found)?.map(Some))
}

/// Returns the identifier of the recipient at a place of the send; None if the recipient was erased.
async fn recipient(
    console: &Console,
    visit: &Visit,
    id: SendId,
    place: &str,
) -> Result<Option<String>, Refusal> {
    const MISSING: Refusal =
        Refusal::NotFound("Nothing was planned for a recipient at this place of the send.");
    let place = place.parse().map_err(|_| MISSING)?;
    let filter = PairFilter { recipient_index: Some(place), ..PairFilter::default() };
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let (pairs, _) = recent::pairs(&console.operations, caller, (app, id), filter, None, 1).await?;
    Ok(pairs.into_iter().next().ok_or(MISSING)?.recipient)
}

/// Returns the suppressions on a channel.
fn suppressed<'a>(found: &'a Explanation, channel: &Channel) -> Vec<&'a SuppressedTarget> {
    found.suppressed.iter().filter(|dead| dead.channel == *channel).collect()
}

/// Returns the subject of an event: its channel, or what happened to the whole send.
fn title(event: &StoryEvent) -> String {
    match event.channel {
        Some(channel) => text::channel(channel).to_owned(),
        None => text::sentence(event.kind.as_str()).replace('.', ""),
    }
}

/// Describes an event. The plan names channels and reasons as the other pages do.
fn told(event: &StoryEvent) -> String {
    if event.kind != EventKind::Planned {
        return event.text.clone();
    }
    let decision = |text: &str| {
        let (name, decision) = text.split_once(' ').unwrap_or((text, ""));
        let name = name.parse::<Channel>().map_or(name, |channel| text::channel(channel));
        if decision == "yes" { name.to_owned() } else { format!("no {name} ({})", text::words(decision)) }
    };
    event.text.split(", ").map(decision).collect::<Vec<_>>().join(", ")
}

fn heading(found: &Explanation) -> String {
    let title = found.request.as_ref().and_then(|stored| stored.title.as_deref()).unwrap_or("Send");
    format!("{title} → {}", found.person.shown())
}
