//! Lifting the suppression of a target.

use actix_web::http::StatusCode;
use askama::Template;
use domain::explain::meaning::noun;
use domain::{Channel, DeliveryId};
use operations::suppressions;
use store::deliveries::suppression::SuppressedTarget;

use super::shell::Visit;
use crate::answer::{Answer, Refusal, local, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::query::Pairs;
use crate::text;

#[derive(Template)]
#[template(path = "lift.html")]
struct LiftPage {
    visit: Visit,
    found: SuppressedTarget,
    /// Noun for a message of the channel.
    noun: &'static str,
    /// Path of the page that led here.
    back: String,
}

/// Reads the channel and the delivery that name a suppression.
fn named(query: &Pairs) -> Result<(Channel, DeliveryId), Refusal> {
    const MISSING: Refusal = Refusal::NotFound("This address does not name a suppression.");
    let channel = query.text("channel").and_then(|text| text.parse().ok()).ok_or(MISSING)?;
    let delivery = query.text("delivery").and_then(|text| text.parse().ok()).ok_or(MISSING)?;
    Ok((channel, delivery))
}

fn back(console: &Console, visit: &Visit, query: &Pairs) -> String {
    match query.text("back") {
        Some(back) => local(&console.base, back),
        None => visit.path("/people"),
    }
}

pub(crate) async fn ask(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (channel, delivery) = named(query)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let found = suppressions::find(&console.operations, caller, app, channel, delivery).await?;
    let back = back(console, &visit, query);
    let noun = noun(Some(channel));
    page(StatusCode::OK, &LiftPage { visit, found, noun, back })
}

pub(crate) async fn lift(change: Change<'_>) -> Answer {
    let (channel, delivery) = named(change.query)?;
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let target = delivery.to_string();
    suppressions::lift(&change.console.operations, caller, app, channel, &target).await?;
    let back = back(change.console, &change.visit, change.query);
    let sign = if back.contains('?') { '&' } else { '?' };
    Ok(see_other(format!("{back}{sign}done=lifted")))
}
