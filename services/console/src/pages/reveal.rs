//! Showing one target of a person in full, with a reason.

use actix_web::http::StatusCode;
use askama::Template;
use domain::Channel;
use operations::people::PersonDetails;
use operations::people::reveal::{self, MaskedTarget, REASON_LENGTH};
use operations::{OperationError, Permission, people};

use super::shell::Visit;
use crate::answer::{Answer, Refusal, page};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::text;

#[derive(Template)]
#[template(path = "reveal.html")]
struct RevealPage {
    visit: Visit,
    details: PersonDetails,
    channel: Channel,
    place: usize,
    masked: String,
    reason: String,
    /// The target, after the form was sent.
    target: Option<String>,
    problem: Option<String>,
}

const NO_TARGET: Refusal = Refusal::NotFound("The address names no target of this person.");

pub(crate) async fn ask(console: &Console, visit: Visit, identifier: &str, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::RevealTargets, app)?;
    let details = people::find(&console.operations, caller, app, identifier).await?;
    let place: Option<usize> = query.text("place").and_then(|place| place.parse().ok());
    let place = place.ok_or(NO_TARGET)?;
    let target = details.targets.get(place).filter(|target| !target.is_removed()).ok_or(NO_TARGET)?;
    let (channel, masked, reason) = (target.channel, target.target.clone(), String::new());
    page(
        StatusCode::OK,
        &RevealPage { visit, details, channel, place, masked, reason, target: None, problem: None },
    )
}

pub(crate) async fn reveal(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let operations = &change.console.operations;
    caller.may(Permission::RevealTargets, app)?;
    let field = |name: &str| change.form.text(name).unwrap_or_default();
    let (channel, place) = (field("channel").parse::<Channel>(), field("place").parse());
    let (Ok(channel), Ok(place)) = (channel, place) else {
        return Err(Refusal::Invalid("The form names no target.".to_owned()));
    };
    let (masked, reason) = (field("masked").to_owned(), field("reason").to_owned());
    let details = people::find(operations, caller, app, identifier).await?;
    let wanted = MaskedTarget { channel, place, masked: &masked };
    let (status, target, problem) =
        match reveal::reveal(operations, caller, (app, identifier), wanted, &reason).await {
            Ok(target) => (StatusCode::OK, Some(target), None),
            Err(OperationError::Invalid(problems)) => {
                (StatusCode::BAD_REQUEST, None, Some(domain::problem::joined(&problems)))
            }
            Err(error) => return Err(error.into()),
        };
    let visit = change.visit;
    page(status, &RevealPage { visit, details, channel, place, masked, reason, target, problem })
}
