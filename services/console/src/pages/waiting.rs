//! The deliveries of an app that wait for a provider.

use actix_web::http::StatusCode;
use askama::Template;
use domain::explain::meaning::{Names, meaning};
use domain::{Status, Timestamp};
use operations::Permission;
use operations::requests::{self, MOST_WAITING};
use store::deliveries::waiting::WaitingDeliveries;

use super::release::release_path;
use super::shell::Visit;
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::text;

struct WaitingRow {
    group: WaitingDeliveries,
    number: String,
    sentence: String,
    /// Advice for the operator, and the command that helps.
    fix: Option<(String, Option<&'static str>)>,
    /// Acceptance and path of one of the earliest sends.
    earliest: Option<(Timestamp, String)>,
    /// Path of the page that releases the group.
    release: String,
}

struct Waiting {
    rows: Vec<WaitingRow>,
    /// Number of counted deliveries, if further ones wait.
    counted: Option<String>,
}

#[derive(Template)]
#[template(path = "waiting.html")]
struct WaitingPage {
    visit: Visit,
    read: Part<Waiting>,
}

pub(crate) async fn list(console: &Console, visit: Visit) -> Answer {
    let read = requests::waiting(&console.operations, &visit.operator.caller, Some(visit.app()?.id)).await;
    let read = part(read)?.map(|groups| Waiting {
        counted: counted(&groups),
        rows: groups.into_iter().map(|group| row(&visit, group)).collect(),
    });
    page(StatusCode::OK, &WaitingPage { visit, read })
}

fn counted(groups: &[WaitingDeliveries]) -> Option<String> {
    let sum: i64 = groups.iter().map(|group| group.deliveries).sum();
    (sum >= MOST_WAITING).then(|| number(MOST_WAITING - 1))
}

fn number(number: i64) -> String {
    text::number(usize::try_from(number).unwrap_or(0), false)
}

fn row(visit: &Visit, group: WaitingDeliveries) -> WaitingRow {
    let found = meaning(Status::Waiting, Some(group.reason));
    let names = Names { channel: Some(group.channel), provider: group.provider.as_deref(), ..Names::ANY };
    let sent = group.earliest.map(|send| visit.send_path(&send));
    WaitingRow {
        number: number(group.deliveries),
        sentence: names.fill(found.sentence),
        fix: found.fix.map(|fix| (names.fill(fix.text), fix.action)),
        earliest: group.earliest_accepted_at().zip(sent),
        release: release_path(visit, &group),
        group,
    }
}
