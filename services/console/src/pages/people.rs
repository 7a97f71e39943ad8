//! The people of an app, and one person.

use actix_web::http::StatusCode;
use askama::Template;
use domain::{AppId, Status};
use operations::explain::{self, Explained, ExplainedSend, ExplainedSends, Now};
use operations::people::{self, MaskedPerson, PersonDetails};
use operations::requests::SendFilter;
use operations::users::{UserFilter, UserPlace};
use operations::{Caller, OperationError, Operations, Permission};

use super::sends::PAGE;
use super::shell::Visit;
use crate::answer::{Answer, Part, Refusal, page, part};
use crate::console::Console;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

/// Number of sends that the page of a person explains.
const LATEST: usize = 10;

struct PersonRow {
    path: String,
    person: MaskedPerson,
}

#[derive(Template)]
#[template(path = "people.html")]
struct PeoplePage {
    visit: Visit,
    query: String,
    /// False if the operator finds people by their whole identifier only.
    searches: bool,
    rows: Part<Vec<PersonRow>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let searched = query.text("q").unwrap_or_default().to_owned();
    let after = query.text("after");
    let searches = caller.may(Permission::ViewUsers, app).is_ok();
    let read = if searches || searched.is_empty() {
        part(search(&console.operations, caller, app, &searched, after).await)?
    } else {
        part(whole(&console.operations, caller, app, &searched).await)?
    };
    let place = read.as_ref().ok().and_then(|(_, place)| place.as_ref());
    let next = place.map(|place| {
        let query = if searched.is_empty() { String::new() } else { format!("q={}&", encoded(&searched)) };
        visit.path(&format!("/people?{query}after={}", encoded(&place.to_string())))
    });
    let rows = read.map(|(people, _)| {
        let row = |person: MaskedPerson| PersonRow { path: visit.path_of_person(&person), person };
        people.into_iter().map(row).collect()
    });
    page(StatusCode::OK, &PeoplePage { visit, query: searched, searches, rows, next })
}

/// People, and the place after which the next page begins.
type Found = (Vec<MaskedPerson>, Option<UserPlace>);

/// Returns the filters for a text, of which the first that finds people counts.
fn filters(text: &str) -> Vec<UserFilter<'_>> {
    let after = |name: &str| text.strip_prefix(name).map(str::trim).filter(|value| !value.is_empty());
    if text.is_empty() {
        vec![UserFilter::All]
    } else if let Some(email) = after("email:") {
        vec![UserFilter::Email(email)]
    } else if let Some(number) = after("phoneNumber:") {
        vec![UserFilter::PhoneNumber(number)]
    } else if text.starts_with('+') {
        vec![UserFilter::PhoneNumber(text), UserFilter::Start(text)]
    } else {
        vec![UserFilter::Start(text)]
    }
}

async fn search(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    text: &str,
    after: Option<&str>,
) -> Result<Found, OperationError> {
    for filter in filters(text) {
        let place = after.and_then(|after| filter.place(after));
        // The place belongs to another filter of the text.
        if after.is_some() && place.is_none() {
            continue;
        }
        let (people, next) = people::list(operations, caller, app, filter, place, PAGE).await?;
        if !people.is_empty() || next.is_some() {
            return Ok((people, next));
        }
    }
    Ok((Vec::new(), None))
}

/// Finds the person with this whole identifier.
async fn whole(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<Found, OperationError> {
    match people::find(operations, caller, app, identifier).await {
        Ok(found) => Ok((vec![found.person], None)),
        Err(OperationError::NotFound(_)) => Ok((Vec::new(), None)),
        Err(error) => Err(error),
    }
}

struct LatestRow {
    explained: ExplainedSend,
    /// Class in the stylesheet.
    tone: &'static str,
    sign: &'static str,
    path: String,
}

/// The latest sends to a person, and what a send would do now.
#[derive(Default)]
struct Latest {
    rows: Vec<LatestRow>,
    now: Option<Now>,
}

#[derive(Template)]
#[template(path = "person.html")]
struct PersonPage {
    visit: Visit,
    details: PersonDetails,
    /// Path of this page.
    own_path: String,
    /// None if the operator may not know the identifier.
    curl: Option<String>,
    latest: Part<Latest>,
}

pub(crate) async fn person(console: &Console, visit: Visit, identifier: &str) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let details = people::find(&console.operations, caller, app, identifier).await?;
    show(console, visit, details).await
}

/// Shows a person whose identifier the operator may not know.
pub(crate) async fn numbered(console: &Console, visit: Visit, number: &str) -> Answer {
    const MISSING: Refusal = Refusal::NotFound("This is not the number of a person.");
    let number = number.parse().map_err(|_| MISSING)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let details = people::find_numbered(&console.operations, caller, app, number).await?;
    show(console, visit, details).await
}

async fn show(console: &Console, visit: Visit, details: PersonDetails) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let identifier = details.person.identifier.as_str();
    let filter = SendFilter::default();
    let read = explain::latest(&console.operations, caller, app, identifier, filter, LATEST, true).await;
    let latest = part(read)?.map(|explained| match explained {
        Explained::Found(found) => latest(&visit, identifier, *found),
        // The person was erased since the details were read.
        Explained::Erased | Explained::UnknownUser { .. } => Latest::default(),
    });
    let known = Some(identifier).filter(|identifier| details.person.shown == **identifier);
    let curl = known.and_then(|identifier| visit.curl(&format!("/v3/users/{}", encoded(identifier))));
    let own_path = visit.path_of_person(&details.person);
    page(StatusCode::OK, &PersonPage { visit, details, own_path, curl, latest })
}

/// Returns class and sign of the status that needs attention first.
fn worst(statuses: &[Status]) -> (&'static str, &'static str) {
    let order = |tone| ["bad", "warn", "calm", "good", "off"].iter().position(|known| *known == tone);
    let looks = statuses.iter().map(|status| (text::tone(status), text::sign(status)));
    looks.min_by_key(|(tone, _)| order(*tone)).unwrap_or(("calm", "•"))
}

fn latest(visit: &Visit, identifier: &str, found: ExplainedSends) -> Latest {
    let row = |explained: ExplainedSend| {
        let send = &explained.send.send_id;
        let path = match explained.send.recipient_index {
            Some(index) => visit.explain_path(send, index),
            None => visit.explain_path_of(send, Some(identifier)),
        };
        let (tone, sign) = worst(&explained.statuses);
        LatestRow { explained, tone, sign, path }
    };
    Latest { rows: found.sends.into_iter().map(row).collect(), now: found.now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_before_what_arrived() {
        assert_eq!(worst(&[Status::Skipped, Status::Sent]), ("good", "✓"));
        assert_eq!(worst(&[Status::Sent, Status::Parked, Status::Retrying]), ("bad", "✕"));
        assert_eq!(worst(&[]), ("calm", "•"));
    }

    #[test]
    fn a_search_is_for_a_beginning_unless_it_names_an_address() {
        assert_eq!(filters(""), [UserFilter::All]);
        assert_eq!(filters("ada l"), [UserFilter::Start("ada l")]);
        assert_eq!(filters("email: ada@example.com"), [UserFilter::Email("ada@example.com")]);
        assert_eq!(filters("phoneNumber:0151 2"), [UserFilter::PhoneNumber("0151 2")]);
        assert_eq!(filters("+49 151"), [UserFilter::PhoneNumber("+49 151"), UserFilter::Start("+49 151")]);
        assert_eq!(filters("email:"), [UserFilter::Start("email:")]);
    }
}
