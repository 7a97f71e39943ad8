//! Releasing deliveries that wait for a provider.

use actix_web::http::StatusCode;
use askama::Template;
use domain::explain::meaning::{Names, meaning};
use domain::{Reason, Status};
use operations::{Permission, requests};
use store::deliveries::waiting::{WaitingCause, WaitingDeliveries};

use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

#[derive(Template)]
#[template(path = "release.html")]
struct ReleasePage {
    visit: Visit,
    group: WaitingDeliveries,
    number: String,
    sentence: String,
    /// Path of this page.
    own_path: String,
}

/// Returns the path of the page that releases a group.
pub(crate) fn release_path(visit: &Visit, group: &WaitingDeliveries) -> String {
    let option = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("&{name}={}", encoded(value))).unwrap_or_default()
    };
    let (provider, code) = (option("provider", &group.provider), option("code", &group.code));
    let reason = group.reason.as_str();
    visit.path(&format!("/waiting/release?channel={}&reason={reason}{provider}{code}", group.channel))
}

fn cause(query: &Pairs) -> Result<WaitingCause, Refusal> {
    const MISSING: Refusal = Refusal::NotFound("This address does not name a cause.");
    let channel = query.text("channel").and_then(|text| text.parse().ok()).ok_or(MISSING)?;
    let reason: Reason = query.text("reason").and_then(|text| text.parse().ok()).ok_or(MISSING)?;
    let text = |name: &str| query.raw(name).map(str::to_owned);
    Ok(WaitingCause { channel, reason, provider: text("provider"), code: text("code") })
}

fn gone() -> Refusal {
    Refusal::Stale("No delivery waits for this cause any more.".to_owned())
}

pub(crate) async fn ask(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::Redrive, app)?;
    let cause = cause(query)?;
    let groups = requests::waiting(&console.operations, caller, Some(app)).await?;
    let group = groups.into_iter().find(|group| group.is_for(&cause)).ok_or_else(gone)?;
    let found = meaning(Status::Waiting, Some(group.reason));
    let names = Names { channel: Some(group.channel), provider: group.provider.as_deref(), ..Names::ANY };
    let (sentence, own_path) = (names.fill(found.sentence), release_path(&visit, &group));
    let number = text::number(usize::try_from(group.deliveries).unwrap_or(0), false);
    page(StatusCode::OK, &ReleasePage { visit, group, number, sentence, own_path })
}

pub(crate) async fn release(change: Change<'_>) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::Redrive, app)?;
    let cause = cause(change.query)?;
    let released = requests::release(&change.console.operations, caller, app, &cause).await?;
    if released == 0 {
        return Err(gone());
    }
    Ok(see_other(change.visit.path("/waiting?done=released")))
}
