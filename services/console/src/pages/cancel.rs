//! Cancelling a send.

use actix_web::http::StatusCode;
use askama::Template;
use domain::SendId;
use operations::overview::Count;
use operations::requests::{self, Cancellable};

use super::sends::send_id;
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::text;

#[derive(Template)]
#[template(path = "cancel.html")]
struct CancelPage {
    visit: Visit,
    id: SendId,
    found: Cancellable,
}

impl CancelPage {
    fn waiting(&self) -> String {
        counted(self.found.waiting, "delivery waits", "deliveries wait")
    }

    fn unplanned(&self) -> String {
        counted(self.found.unplanned, "recipient is", "recipients are")
    }
}

fn counted(number: i64, one: &str, many: &str) -> String {
    let number = usize::try_from(number).unwrap_or(0);
    text::counted(Count { number, more: false }, one, many)
}

pub(crate) async fn ask(console: &Console, visit: Visit, id: &str) -> Answer {
    let id = send_id(id)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let found = requests::cancellable(&console.operations, caller, app, id).await?;
    page(StatusCode::OK, &CancelPage { visit, id, found })
}

pub(crate) async fn cancel(change: Change<'_>, id: &str) -> Answer {
    let id = send_id(id)?;
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    let operations = &change.console.operations;
    let stopped = requests::cancel(operations, caller, app, id).await?;
    let found = requests::cancellable(operations, caller, app, id).await;
    if stopped == 0 && !found.is_ok_and(|found| found.summary.cancelled) {
        return Err(Refusal::Stale("Nothing of this send was left to cancel.".to_owned()));
    }
    Ok(see_other(format!("{}?done=cancelled", change.visit.send_path(&id))))
}
