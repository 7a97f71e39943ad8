//! The people of an app, and one person.

use actix_web::http::StatusCode;
use askama::Template;
use domain::UserNumber;
use operations::OperationError;
use operations::people::{self, MaskedPerson, PersonDetails};

use super::sends::PAGE;
use super::shell::Visit;
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::query::Pairs;
use crate::text;

struct PersonRow {
    path: String,
    person: MaskedPerson,
}

#[derive(Template)]
#[template(path = "people.html")]
struct PeoplePage {
    visit: Visit,
    query: String,
    rows: Part<Vec<PersonRow>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let searched = query.text("q").unwrap_or_default().to_owned();
    let after = query.text("after").and_then(|text| text.parse().ok()).map(UserNumber);
    let read = if searched.is_empty() {
        part(people::list(&console.operations, caller, app, after, PAGE).await)?
    } else {
        let found = people::find(&console.operations, caller, app, &searched).await;
        part(match found {
            Ok(found) => Ok((vec![found.person], false)),
            Err(OperationError::NotFound(_)) => Ok((Vec::new(), false)),
            Err(error) => Err(error),
        })?
    };
    let last = read.as_ref().ok().filter(|(_, has_more)| *has_more).and_then(|(people, _)| people.last());
    let next = last.map(|last| visit.path(&format!("/people?after={}", last.number)));
    let rows = read.map(|(people, _)| {
        let row = |person: MaskedPerson| PersonRow { path: visit.person_path(&person.identifier), person };
        people.into_iter().map(row).collect()
    });
    page(StatusCode::OK, &PeoplePage { visit, query: searched, rows, next })
}

#[derive(Template)]
#[template(path = "person.html")]
struct PersonPage {
    visit: Visit,
    details: PersonDetails,
}

pub(crate) async fn person(console: &Console, visit: Visit, identifier: &str) -> Answer {
    let details =
        people::find(&console.operations, &visit.operator.caller, visit.app()?.id, identifier).await?;
    page(StatusCode::OK, &PersonPage { visit, details })
}
