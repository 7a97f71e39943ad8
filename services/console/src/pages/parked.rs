//! The parked messages of an app.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use askama::Template;
use domain::{Channel, DeliveryId};
use operations::overview::ParkedCause;
use operations::{Permission, parked, redrives};
use store::deliveries::recent::{LatestAnswer, ParkedMark, ParkedMessage};

use super::redrive::RunRow;
use super::sends::PAGE;
use super::shell::{PersonLink, Visit};
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::query::{Pairs, Search};
use crate::route::encoded;
use crate::text;

const QUALIFIERS: &[&str] = &["channel", "cause"];
/// Redrives that the page lists.
const RUNS: i64 = 10;

struct ParkedRow {
    message: ParkedMessage,
    answer: Option<LatestAnswer>,
    send: Option<String>,
    person: Option<PersonLink>,
}

struct Group {
    cause: ParkedCause,
    path: String,
    /// Path of the preview of a redrive.
    redrive: String,
}

#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage {
    visit: Visit,
    search: Search,
    groups: Part<Vec<Group>>,
    runs: Part<Vec<RunRow>>,
    rows: Part<Vec<ParkedRow>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let mut search = Search::read(query, QUALIFIERS);
    let channels: Vec<_> = Channel::EXTERNAL.iter().map(|channel| (channel.as_str(), *channel)).collect();
    let channel = search.one_of("channel", &channels);
    let cause = search.value("cause").map(str::to_owned);
    let before = query.text("before").and_then(mark);
    let is_wanted = |message: &ParkedMessage| {
        channel.is_none_or(|wanted| message.channel() == Some(wanted))
            && cause.as_deref().is_none_or(|wanted| message.cause == wanted)
    };
    let overview = part(console.overviews.of_app(caller, app).await)?;
    let groups = overview.map(|overview| {
        let group = |cause: &ParkedCause| {
            let channel = cause.channel.map(|channel| format!("&channel={channel}")).unwrap_or_default();
            let query = format!("cause={}{channel}", encoded(&cause.cause));
            Group {
                cause: cause.clone(),
                path: visit.path(&format!("/parked?{query}")),
                redrive: visit.path(&format!("/parked/redrive?{query}")),
            }
        };
        overview.parked_causes.iter().map(group).collect()
    });
    let read = part(parked::page(&console.operations, caller, app, before, PAGE, is_wanted).await)?;
    let next = read.as_ref().ok().and_then(|page| page.next).map(|next| {
        let query = encoded(&search.written());
        visit.path(&format!("/parked?q={query}&before={}_{}", next.micros, next.id))
    });
    let rows = read.map(|page| rows(&visit, page.messages, page.answers));
    let runs = part(redrives::list(&console.operations, caller, app, RUNS).await)?;
    let runs = runs.map(|runs| runs.into_iter().map(|run| RunRow::new(&visit, run)).collect());
    page(StatusCode::OK, &ParkedPage { visit, search, groups, runs, rows, next })
}

fn rows(
    visit: &Visit,
    messages: Vec<ParkedMessage>,
    mut answers: BTreeMap<DeliveryId, LatestAnswer>,
) -> Vec<ParkedRow> {
    let row = |message: ParkedMessage| {
        let answer = message.delivery.and_then(|delivery| answers.remove(&delivery));
        let recipient = answer.as_ref().and_then(|answer| answer.recipient.clone());
        ParkedRow {
            send: message.send.map(|send| visit.send_path(&send)),
            person: recipient.map(|identifier| visit.person(&identifier)),
            message,
            answer,
        }
    };
    messages.into_iter().map(row).collect()
}

fn mark(text: &str) -> Option<ParkedMark> {
    let (micros, id) = text.split_once('_')?;
    Some(ParkedMark { micros: micros.parse().ok()?, id: id.parse().ok()? })
}
